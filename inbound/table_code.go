package inbound

var github = provider{
	Provider: Provider{
		Name: "github", Title: "GitHub", NeedSecret: true,
		Secret:     "the secret that was entered with the webhook",
		Signature:  "X-Hub-Signature-256: HMAC-SHA256 of the body, in hexadecimal. The older X-Hub-Signature with SHA-1 is not accepted",
		Types:      "what the body shows, and its member action: github.issues.opened, github.push. X-GitHub-Event counts only where the body could be that of several events",
		DeliveryID: "a hash of the body; of workflow_dispatch and repository_dispatch, whose bodies may repeat, with X-GitHub-Delivery",
		Success:    ok,
		Retries:    "none by itself: a delivery that fails has to be sent again by hand or through GitHub's API. GitHub waits 10 s.",
		Setup: []string{
			"In the settings of the repository, organisation or app, open Webhooks and add one.",
			"Enter the URL of the source as Payload URL and choose the content type application/json.",
			"Make up a long random secret, enter it there and as a secret of the source.",
			"Choose the events. GitHub sends a ping at once, which becomes an event github.ping.",
		},
		Notes: []string{
			"Bodies can have up to 25 MB; raise the size that the source takes if you need such events.",
			"The content type application/x-www-form-urlencoded works too; the JSON is then in the field payload.",
			"GitHub does not sign X-GitHub-Event and X-GitHub-Delivery. Two deliveries with the same body count as one: an organization and a repository that both send to one source give one event.",
		},
	},
	schemes: bodyHMAC("X-Hub-Signature-256", "sha256=", hexDigits),
	named:   typeOfGitHub,
	ids:     only(computed(idOfGitHub)),
}

var gitlab = provider{
	Provider: Provider{
		Name: "gitlab", Title: "GitLab", NeedSecret: true,
		Secret:     "the secret token of the webhook, or its signing token, which begins with whsec_",
		Settings:   []Setting{tolerance("5m")},
		Signature:  "with a signing token webhook-signature as Standard Webhooks say; else X-Gitlab-Token, compared with the secret",
		Types:      "the member object_kind of the body, else event_name: gitlab.push, gitlab.merge_request",
		DeliveryID: "with a signing token webhook-id, which is signed; else Idempotency-Key (GitLab 17.4 and newer)",
		Success:    ok,
		Retries:    "none of a single delivery. After 4 failures in a row a webhook pauses, for a minute at first and for up to a day; after 40 it is switched off.",
		Setup: []string{
			"In the project or group, open Settings, Webhooks and add one.",
			"Enter the URL of the source, and a long random text as secret token; give the source the same text.",
			"Where GitLab offers a signing token, prefer it: the body is then signed.",
		},
		Notes: []string{
			"A secret token is sent along and signs nothing: who sees one request can make up others.",
			"X-Gitlab-Event-UUID is not used to recognise repeated deliveries, as several webhooks share it.",
		},
	},
	schemes: []scheme{
		standardScheme("webhook", "v1,", signingKey),
		{signature: grammar{header: "X-Gitlab-Token", encoding: verbatim}, algorithm: equality, form: textKey},
	},
	types: first(parts(inBody("object_kind")), parts(inBody("event_name"))),
	ids:   first(parts(computed(signedID)), parts(inHeader("Idempotency-Key"))),
}

var bitbucket = provider{
	Provider: Provider{
		Name: "bitbucket", Title: "Bitbucket", NeedSecret: true,
		Secret:     "the secret of the webhook",
		Signature:  "X-Hub-Signature: HMAC-SHA256 of the body, in hexadecimal",
		Types:      "what the body shows: bitbucket.repo:push. X-Event-Key chooses between events whose bodies look alike, such as pullrequest:approved and pullrequest:unapproved",
		DeliveryID: "a hash of the body",
		Success:    ok,
		Retries:    "X-Attempt-Number counts the attempts. Bitbucket waits 10 s.",
		Setup: []string{
			"In the repository's settings, open Webhooks and add one with the URL of the source.",
			"Enter a long random secret there and as a secret of the source.",
		},
		Notes: []string{
			"Bitbucket sends nothing where the body would have more than 256 KB.",
			"Bitbucket does not sign X-Event-Key and X-Request-UUID.",
		},
	},
	schemes: bodyHMAC("X-Hub-Signature", "sha256=", hexDigits),
	named:   typeOfBitbucket,
	ids:     only(computed(bodyDigest)),
}

var jira = provider{
	Provider: Provider{
		Name: "jira", Title: "Jira", NeedSecret: true,
		Secret:     "the secret of the webhook",
		Signature:  "X-Hub-Signature: HMAC-SHA256 of the body, in hexadecimal",
		Types:      "the member webhookEvent of the body: jira.jira:issue_updated",
		DeliveryID: "a hash of the body, which has a timestamp in it. X-Atlassian-Webhook-Identifier is not signed",
		Success:    ok,
		Retries:    "some, with the same identifier; how many is not published.",
		Setup: []string{
			"In Jira's administration, open System, WebHooks and create one with the URL of the source.",
			"Enter a long random secret there and as a secret of the source.",
		},
		Notes: []string{"Webhooks of Connect apps carry a JWT in Authorization instead of a signature; they are not verified by this provider."},
	},
	schemes: bodyHMAC("X-Hub-Signature", "sha256=", hexDigits),
	types:   only(inBody("webhookEvent")),
	ids:     only(computed(bodyDigest)),
}

var linear = provider{
	Provider: Provider{
		Name: "linear", Title: "Linear", NeedSecret: true,
		Secret:     "the signing secret that Linear shows with the webhook",
		Settings:   []Setting{tolerance("1m")},
		Signature:  "Linear-Signature: HMAC-SHA256 of the body, in hexadecimal. The member webhookTimestamp of the body must be recent",
		Types:      "the members type and action of the body: linear.Issue.create",
		DeliveryID: "a hash of the body's members without webhookTimestamp, which changes with each attempt. Linear-Delivery is not signed",
		Success:    ok,
		Retries:    "several, hours apart. Linear waits 5 s.",
		Setup: []string{
			"In Linear's settings, open API and create a webhook with the URL of the source.",
			"Copy the signing secret into a secret of the source.",
		},
		Notes: []string{"Linear's own library tolerates a minute. Should repeated deliveries be rejected as stale, raise tolerance to some hours."},
	},
	schemes: []scheme{{
		signature: grammar{header: "Linear-Signature", encoding: hexDigits}, algorithm: hmacSHA256, form: textKey, template: "{body}",
		timestamp: stamp{in: inBody("webhookTimestamp"), unit: milliseconds},
	}},
	types: only(inBody("type"), inBody("action")),
	ids:   only(computed(idOfLinear)),
}
