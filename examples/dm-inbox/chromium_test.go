package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/posthaste-dev/posthaste/examples/dm-inbox/sim"
	"github.com/posthaste-dev/posthaste/inbound/meta/metatest"
)

// The pictures of the README are made by
//
//	go test ./examples/dm-inbox -run TestBrowsers -pictures examples/dm-inbox/pictures
//
// with a font that has emoji (fonts-noto-color-emoji).
var pictures = flag.String("pictures", "", "folder that TestBrowsers saves pictures of the page to")

// window is a browser of its own, with cookies of its own.
type window struct {
	t    *testing.T
	name string
	url  string
	tab  context.Context //nolint:containedctx // what chromedp calls a tab
}

// startChromium returns what opens windows.
func startChromium(t *testing.T) (open func(name, url string) window) {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Fatal("there is no Chromium: scripts/setup-tests installs it")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()),
		chromedp.NoSandbox, // tests run as root in containers, and see no page but our own
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WindowSize(1200, 760), chromedp.WSURLReadTimeout(time.Minute))
	allocated, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	first, closeAll := chromedp.NewContext(allocated)
	t.Cleanup(closeAll)
	// The context of the first call is that of the browser's life, so none has a deadline.
	if err := chromedp.Do(first, chromedp.Navigate("about:blank")); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return func(name, url string) window {
		tab, closeTab := chromedp.NewContext(first, chromedp.WithNewBrowserContext())
		t.Cleanup(closeTab)
		if err := chromedp.Do(tab, chromedp.EmulateViewport(1200, 760)); err != nil {
			t.Fatalf("open %s's browser: %v", name, err)
		}
		return window{t, name, url, tab}
	}
}

func (w window) do(steps ...chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	ctx, stop := context.WithTimeout(w.tab, 30*time.Second)
	defer stop()
	if err := chromedp.Do(ctx, steps...); err != nil {
		w.t.Fatalf("%s's browser: %v; it shows:\n%s", w.name, err, w.text("body"))
	}
}

// signIn fills in the form of the login and waits until the page is live.
func (w window) signIn() {
	w.t.Helper()
	w.do(
		chromedp.Navigate(w.url+"/login"),
		chromedp.SetValue(chromedp.CSS(`select[name=agent]`), w.name),
		chromedp.SendKeys(chromedp.CSS(`input[name=password]`), "demo\n"),
		chromedp.WaitVisible(chromedp.CSS(`body[data-live=open]`)),
	)
}

// sees waits until an element that the selector names holds the text. Nothing is
// reloaded in the meantime.
func (w window) sees(selector, text string) {
	w.t.Helper()
	expression := fmt.Sprintf(`[...document.querySelectorAll(%q)].some(e => e.textContent.includes(%q))`, selector, text)
	ctx, stop := context.WithTimeout(w.tab, 30*time.Second)
	defer stop()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](expression, chromedp.WithPollingInterval(20*time.Millisecond))); err != nil {
		w.t.Fatalf("%s's browser does not show %q at %s: %v; it shows:\n%s", w.name, text, selector, err, w.text("body"))
	}
}

// click clicks at the first element that the selector names and that holds the text. The
// page does it by itself: the list is drawn anew at any time, and what was found before
// that could not be clicked at after it.
func (w window) click(selector, text string) {
	w.t.Helper()
	w.sees(selector, text)
	expression := fmt.Sprintf(`[...document.querySelectorAll(%q)].find(e => e.textContent.includes(%q)).click()`, selector, text)
	w.do(chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := chromedp.Evaluate[any](expression)(ctx, tab)
		return err
	}))
}

// text returns all that the selector names, a line each.
func (w window) text(selector string) string {
	ctx, stop := context.WithTimeout(w.tab, 30*time.Second)
	defer stop()
	expression := fmt.Sprintf(`[...document.querySelectorAll(%q)].map(e => e.textContent).join("\n")`, selector)
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](expression))
	if err != nil {
		w.t.Errorf("%s's browser: %v", w.name, err)
	}
	return text
}

func (w window) picture(name string) {
	w.t.Helper()
	if *pictures == "" {
		return
	}
	png, err := chromedp.Run(w.tab, chromedp.CaptureScreenshot())
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*pictures, name+".png"), png, 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// TestBrowsers has two agents of one company and one of another look on while
// customers write.
func TestBrowsers(t *testing.T) {
	r := newRig(t, "", func(*Config) {})
	open := startChromium(t)
	anna, amir, gina := open("anna", r.url), open("amir", r.url), open("gina", r.url)
	if *pictures != "" {
		crowd(t, r)
	}
	for _, w := range []window{anna, amir, gina} {
		w.signIn()
	}
	started := time.Now().Truncate(time.Second)
	at := func(seconds int) time.Time { return started.Add(time.Duration(seconds) * time.Second) }
	chat := metatest.Chat{Account: acmeInstagram, Customer: "9001700000000001"}

	// A message comes, and both agents of Acme see it.
	r.send("instagram", metatest.Messaging(chat.Account, at(0), chat.Text(at(0), "aWd.1", "Is the blue one gone? 😀")))
	for _, w := range []window{anna, amir} {
		w.sees(".lead.unread .last", "blue one gone?")
	}
	for _, w := range []window{anna, amir} {
		w.click(".lead", chat.Customer)
		w.sees("#thread .message.in .text", "blue one gone?")
	}

	// An edit and a reaction change its row.
	r.send("instagram", metatest.Messaging(chat.Account, at(2),
		chat.Edited(at(1), "aWd.1", "Is the blue one gone already? 😀", 1), chat.React(at(2), "aWd.1", "love", "❤️"),
		chat.StoryMention(at(3), "aWd.2", "https://cdn.example/stories/1"),
	))
	for _, w := range []window{anna, amir} {
		w.sees(`[data-mid="aWd.1"] .text`, "gone already")
		w.sees(`[data-mid="aWd.1"] .edited`, "edited")
		w.sees(`[data-mid="aWd.1"] .reactions`, "❤️")
		w.sees(`[data-mid="aWd.2"]`, "story")
	}

	// Anna answers; Amir sees it, and that the customer read it.
	anna.do(chromedp.SendKeys(chromedp.CSS(`#reply textarea`), "No, we have it in all sizes. Shall I keep one for you?\r")) // Enter sends
	for _, w := range []window{anna, amir} {
		w.sees(".message.out .text", "in all sizes")
		w.sees(".message.out .read", "read")
	}
	r.send("instagram", metatest.Messaging(chat.Account, at(9), chat.Text(at(8), "aWd.3", "שלום, 42 please"), chat.Text(at(9), "aWd.4", "wrong chat, sorry")))
	r.send("instagram", metatest.Messaging(chat.Account, at(10), chat.Unsent(at(10), "aWd.4")))
	for _, w := range []window{anna, amir} {
		w.sees(`[data-mid="aWd.4"]`, "taken back")
	}
	if n := strings.Count(amir.text(".message.out .text"), "in all sizes"); n != 1 {
		t.Errorf("Amir sees the answer %d times", n)
	}
	anna.sees(".lead.selected:not(.unread)", chat.Customer) // she has it open, so it is read
	anna.picture("conversation")

	// Gina, of Globex, has seen nothing of it. What comes for her proves that hers is live.
	other := metatest.Chat{Account: globexInstagram, Customer: "9002700000000002"}
	r.send("instagram", metatest.Messaging(other.Account, at(20), other.Text(at(20), "aWd.9", "Two seats to Graz?")))
	gina.sees(".lead.unread .last", "Two seats to Graz?")
	gina.picture("another-tenant")
	for _, theirs := range []string{chat.Customer, "blue one", "in all sizes"} {
		if strings.Contains(gina.text("body"), theirs) {
			t.Errorf("Gina sees %q of another tenant:\n%s", theirs, gina.text("body"))
		}
	}
	if strings.Contains(anna.text("body"), "Two seats") {
		t.Error("Anna sees what was written to another tenant")
	}
}

// crowd fills the inboxes, for pictures.
func crowd(t *testing.T, r *rig) {
	t.Helper()
	plan, err := sim.NewPlan(sim.Options{
		Events: 300, Customers: 14, Seed: 4, Start: time.Now().Add(-time.Hour),
		Instagram: []string{acmeInstagram, globexInstagram}, Pages: []string{acmePage},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plan.Send(t.Context(), sim.Target{URLs: []string{r.url + webhookPath}, Secret: r.config.AppSecret}); err != nil {
		t.Fatal(err)
	}
	r.settled()
}
