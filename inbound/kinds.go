package inbound

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// What the signed bytes say of an event whose provider names it in a header, which is
// not signed: somebody who has seen a genuine request could send it again under other
// names.

// bodyDigest is the id of a delivery of which nothing but the body is signed.
func bodyDigest(d *document) string { return d.digest() }

// signedID is the id that the signature covers.
func signedID(d *document) string { return d.request.signedID }

// gitHubKind is an event of GitHub, and members that only its body has.
type gitHubKind struct {
	name    string
	members []string
}

// gitHubKinds stand in an order in which the first one that fits is the right one. Those
// that are missing have nothing of their own: star and team_add look like others.
// Source: docs.github.com, "Webhook events and payloads".
var gitHubKinds = []gitHubKind{
	{"ping", []string{"zen", "hook_id"}},
	{"meta", []string{"hook", "hook_id"}},
	{"pull_request_review_comment", []string{"pull_request", "comment"}},
	{"pull_request_review_thread", []string{"pull_request", "thread"}},
	{"pull_request_review", []string{"pull_request", "review"}},
	{"pull_request", []string{"pull_request", "number"}},
	{"issue_comment", []string{"issue", "comment"}},
	{"issues", []string{"issue", "action"}},
	{"discussion_comment", []string{"discussion", "comment"}},
	{"discussion", []string{"discussion", "action"}},
	{"commit_comment", []string{"comment", "repository"}},
	{"deployment_status", []string{"deployment_status", "deployment"}},
	{"deployment_protection_rule", []string{"deployment_callback_url"}},
	{"deployment", []string{"deployment", "action"}},
	{"workflow_job", []string{"workflow_job"}},
	{"workflow_run", []string{"workflow_run", "workflow"}},
	{"workflow_dispatch", []string{"workflow", "ref"}},
	{"repository_dispatch", []string{"client_payload", "branch"}},
	{"check_run", []string{"check_run"}},
	{"check_suite", []string{"check_suite"}},
	{"push", []string{"ref", "before", "after", "commits"}},
	{"create", []string{"ref", "ref_type", "master_branch"}},
	{"delete", []string{"ref", "ref_type", "pusher_type"}},
	{"status", []string{"sha", "state", "context", "branches"}},
	{"release", []string{"release", "action"}},
	{"fork", []string{"forkee"}},
	{"gollum", []string{"pages"}},
	{"page_build", []string{"build", "id"}},
	{"milestone", []string{"milestone", "action"}},
	{"label", []string{"label", "action"}},
	{"merge_group", []string{"merge_group"}},
	{"package", []string{"package", "action"}},
	{"registry_package", []string{"registry_package"}},
	{"installation_repositories", []string{"installation", "repositories_added"}},
	{"marketplace_purchase", []string{"marketplace_purchase"}},
	{"sponsorship", []string{"sponsorship"}},
	{"repository_ruleset", []string{"repository_ruleset"}},
	{"branch_protection_rule", []string{"rule", "repository"}},
	{"secret_scanning_alert_location", []string{"alert", "location"}},
}

// typeOfGitHub names an event as its body shows it, and as X-GitHub-Event says only
// where the body could be that of several.
func typeOfGitHub(d *document) string {
	name := gitHubEvent(d)
	if name == "" {
		name = d.at(inHeader("X-GitHub-Event"))
	}
	if action := d.at(inBody("action")); name != "" && action != "" {
		name += "." + action
	}
	return name
}

func gitHubEvent(d *document) string {
	has := map[string]bool{}
	for key, value := range d.json.fields() {
		if string(value) != "null" && len(has) < maxGitHubMembers {
			has[key.text()] = true
		}
	}
	for _, kind := range gitHubKinds {
		if !slices.ContainsFunc(kind.members, func(name string) bool { return !has[name] }) {
			return kind.name
		}
	}
	if has["alert"] {
		of := d.json.get("alert").pick("secret_type", "tool", "security_vulnerability")
		for i, name := range []string{"secret_scanning_alert", "code_scanning_alert", "dependabot_alert"} {
			if of[i] != nil {
				return name
			}
		}
	}
	return ""
}

const maxGitHubMembers = 1000 // far more than any event has

// idOfGitHub is a hash of the body. Those of the events that somebody triggers by hand
// may be equal, however often that is done: they are told apart by the header, since
// otherwise the second one would be lost.
func idOfGitHub(d *document) string {
	switch gitHubEvent(d) {
	case "workflow_dispatch", "repository_dispatch":
		return d.digest(d.at(inHeader("X-GitHub-Delivery")))
	}
	return d.digest()
}

// typeOfBitbucket names an event as its body shows it. X-Event-Key chooses only among
// those that have the same body, as it were.
// Source: support.atlassian.com/bitbucket-cloud, "Event payloads".
func typeOfBitbucket(d *document) string {
	said := d.at(inHeader("X-Event-Key"))
	fits := bitbucketEvents(d)
	if len(fits) == 0 || slices.Contains(fits, said) {
		return said
	}
	return fits[0]
}

// bitbucketEvents are the keys of the events that have such a body, the likeliest first.
func bitbucketEvents(d *document) []string {
	if key := d.at(inBody("eventKey")); key != "" { // of Bitbucket Data Center
		return []string{key}
	}
	isNew := func(what string) bool {
		of := d.json.get(what).pick("created_on", "updated_on")
		return of[0] != nil && string(of[0]) == string(of[1])
	}
	switch {
	case d.has("push"):
		return []string{"repo:push"}
	case d.has("fork"):
		return []string{"repo:fork"}
	case d.has("commit_status") && isNew("commit_status"):
		return []string{"repo:commit_status_created"}
	case d.has("commit_status"):
		return []string{"repo:commit_status_updated"}
	case d.has("issue") && d.has("comment"):
		return []string{"issue:comment_created"}
	case d.has("issue") && d.has("changes"):
		return []string{"issue:updated"}
	case d.has("issue"):
		return []string{"issue:created"}
	case d.has("pullrequest") && d.has("comment"):
		return []string{"pullrequest:comment_created", "pullrequest:comment_updated", "pullrequest:comment_deleted", "pullrequest:comment_resolved", "pullrequest:comment_reopened"}
	case d.has("pullrequest") && d.has("approval"):
		return []string{"pullrequest:approved", "pullrequest:unapproved"}
	case d.has("pullrequest") && d.has("changes_request"):
		return []string{"pullrequest:changes_request_created", "pullrequest:changes_request_removed"}
	case d.has("pullrequest"):
		return bitbucketPullRequest(d.at(inBody("pullrequest", "state")), isNew("pullrequest"))
	case d.has("comment") && d.has("commit"):
		return []string{"repo:commit_comment_created"}
	case d.has("changes") && d.has("repository"):
		return []string{"repo:updated"}
	}
	return nil
}

func bitbucketPullRequest(state string, isNew bool) []string {
	switch {
	case state == "MERGED":
		return []string{"pullrequest:fulfilled"}
	case state == "DECLINED":
		return []string{"pullrequest:rejected"}
	case isNew:
		return []string{"pullrequest:created"}
	}
	return []string{"pullrequest:updated"}
}

// idOfLinear hashes all but the time of the attempt, which is the only member that
// changes when Linear tries again.
func idOfLinear(d *document) string {
	var all []string
	for key, value := range d.json.fields() {
		if name := key.text(); name != "webhookTimestamp" {
			all = append(all, fmt.Sprintf("%d:%s:%s", len(name), name, value))
		}
	}
	if all == nil {
		return d.digest()
	}
	slices.Sort(all)
	sum := sha256.Sum256([]byte(strings.Join(all, ",")))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// idOfZendesk is the id of an event. What a trigger sends has none, and may be the same
// byte for byte the next time, so that the signed time tells it apart.
func idOfZendesk(d *document) string {
	if id := d.at(inBody("id")); id != "" && strings.HasPrefix(d.at(inBody("type")), "zen:event-type:") {
		return id
	}
	return d.digest(d.request.signedTime)
}

// topicOf returns the topic that a shop names in a header. It is in no body, and the
// bodies of two topics may be equal: it has to be part of the id as well.
func topicOf(headers ...string) func(d *document) string {
	return func(d *document) string {
		for _, name := range headers {
			if topic := d.request.Header.Get(name); topic != "" {
				return topic
			}
		}
		return ""
	}
}

// idOfTopic is the id of a delivery whose topic is in a header.
func idOfTopic(topic func(*document) string) place {
	return computed(func(d *document) string { return d.digest(topic(d)) })
}

// topics is the setting of providers whose topic is in a header that is not signed.
func topics() Setting {
	return Setting{
		Name: "topics",
		Meaning: "the topics that are taken, with commas between them; any where it is missing. The topic is not signed: with a source for " +
			"each topic, a request that was seen by others cannot be sent again under another topic",
	}
}

// checkTopic rejects a verified request of a topic that the settings do not name.
func (v *Verifier) checkTopic(d *document) *Rejection {
	if v.provider.topic == nil {
		return nil
	}
	allowed, topic := v.settings.list("topics"), v.provider.topic(d)
	if len(allowed) == 0 || slices.Contains(allowed, topic) {
		return nil
	}
	return reject(ReasonNotAllowed, fmt.Sprintf("the topic is %.200q, which is not in the setting topics", topic),
		"add it to the setting, or unsubscribe from it at "+v.provider.Title)
}
