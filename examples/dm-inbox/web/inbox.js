"use strict";
// The server renders everything. This file fetches what has changed, and sends what
// the agent does. Live events say that something happened; what it looks like now is the
// server's to say, so an event that is missed or comes late does no harm.

const list = document.getElementById("conversations");
const accounts = document.getElementById("accounts");
const section = document.getElementById("conversation");
const thread = document.getElementById("thread");
const form = document.getElementById("reply");
let open = list.dataset.open;
let replyID = "";

async function fragment(path) {
	const response = await fetch(path);
	if (response.status === 401) location.assign("/login");
	return response.ok ? response.text() : null;
}

function post(action, fields) {
	return fetch(`/conversations/${encodeURIComponent(open)}/${action}`, { method: "POST", body: new URLSearchParams(fields) });
}

async function showList() {
	const html = await fragment("/conversations");
	if (html === null) return;
	list.innerHTML = html;
	list.querySelector(`[data-lead="${CSS.escape(open)}"]`)?.classList.add("selected");
}

// What is written into a form stays: it is not replaced under the agent's hands.
async function showAccounts() {
	if (accounts.contains(document.activeElement)) return;
	const html = await fragment("/accounts");
	if (html !== null) accounts.innerHTML = html;
}

async function showThread() {
	section.hidden = !open;
	document.getElementById("nothing").hidden = Boolean(open);
	if (!open) return;
	const lead = open;
	const html = await fragment(`/conversations/${encodeURIComponent(lead)}`);
	if (html === null || lead !== open) return;
	const wasAtEnd = thread.scrollHeight - thread.scrollTop - thread.clientHeight < 80 || !thread.innerHTML;
	thread.innerHTML = html;
	if (wasAtEnd) thread.scrollTop = thread.scrollHeight;
	const head = thread.querySelector("h2");
	// The id of a reply is kept until it was taken, so that trying again sends it once.
	replyID ||= head.dataset.replyId;
	if (head.dataset.unread !== "0" && document.visibilityState === "visible") await post("read");
}

// Many events may come at once: one refresh runs, and one more follows what came meanwhile.
let running = false, again = false;
async function refresh() {
	if (running) { again = true; return; }
	running = true;
	do {
		again = false;
		try { await Promise.all([showList(), showThread(), showAccounts()]); } catch { /* offline: the stream comes back and refreshes */ }
	} while (again);
	running = false;
}

list.addEventListener("click", (click) => {
	const link = click.target.closest("a[data-lead]");
	if (!link) return;
	click.preventDefault();
	open = link.dataset.lead;
	replyID = "";
	thread.innerHTML = "";
	history.replaceState(null, "", link.href);
	refresh();
});

form.addEventListener("submit", async (submit) => {
	submit.preventDefault();
	const response = await post("reply", { text: form.text.value, reply_id: replyID });
	if (response.ok) { form.text.value = ""; replyID = ""; }
	else alert(await response.text());
	refresh();
});

// Enter sends; Shift+Enter begins a new line, and so does Enter that ends the input of
// a character which takes several keys.
form.text.addEventListener("keydown", (key) => {
	if (key.key !== "Enter" || key.shiftKey || key.isComposing) return;
	key.preventDefault();
	if (!key.repeat) form.requestSubmit();
});

document.getElementById("close").addEventListener("click", () => post("close").then(refresh));
document.addEventListener("visibilitychange", refresh);

const live = new EventSource("/live");
live.addEventListener("open", () => { document.body.dataset.live = "open"; refresh(); });
live.addEventListener("event.accepted", refresh);
live.addEventListener("stream.reset", refresh);
live.addEventListener("error", () => {
	document.body.dataset.live = "connecting"; // the browser tries again, with the id of the last event
	if (live.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 2000);
});
