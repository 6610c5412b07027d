package cli

import (
	"strings"

	"github.com/alecthomas/kong"
)

// examples are printed at the end of the help of each command, by its path without the
// program's name. A test holds every command to two.
var examples = map[string][]string{
	"serve":                   {"posthaste serve", "posthaste serve --db postgres://user@host/posthaste --listen :8700"},
	"quickstart":              {"posthaste quickstart", "posthaste quickstart --dir /tmp/try --listen 127.0.0.1:8800"},
	"receiver":                {"posthaste receiver --listen 127.0.0.1:8701", "posthaste receiver --fail-first 2 --status 503"},
	"send":                    {`posthaste send invoice.paid --data '{"invoice":42}'`, "posthaste send invoice.paid --data @invoice.json --key inv_42_paid"},
	"events list":             {"posthaste events list --type invoice.paid --since 2h", "posthaste events list --json --limit 1000"},
	"events get":              {"posthaste events get evt_01k3f8m4qse3y9y6yq6d2mzq8e", "posthaste events get --payload evt_01k3f8m4qse3y9y6yq6d2mzq8e"},
	"events resend":           {"posthaste events resend evt_01k3f8m4qse3y9y6yq6d2mzq8e ep_01k3f8m4qse3y9y6yq6d2mzq8e", "posthaste events resend evt_01k3f8m4qse3y9y6yq6d2mzq8e uid:billing"},
	"deliveries list":         {"posthaste deliveries list --status dead", "posthaste deliveries list --endpoint uid:billing --since 24h --json"},
	"deliveries get":          {"posthaste deliveries get dlv_01k3f8m4qse3y9y6yq6d2mzq8e", "posthaste deliveries get --json dlv_01k3f8m4qse3y9y6yq6d2mzq8e"},
	"deliveries replay":       {"posthaste deliveries replay dlv_01k3f8m4qse3y9y6yq6d2mzq8e", "posthaste deliveries replay $(posthaste deliveries list --status dead --json | jq -r .id)"},
	"deliveries skip":         {"posthaste deliveries skip dlv_01k3f8m4qse3y9y6yq6d2mzq8e", "posthaste deliveries skip --tenant acme dlv_01k3f8m4qse3y9y6yq6d2mzq8e"},
	"replay":                  {"posthaste replay dlv_01k3f8m4qse3y9y6yq6d2mzq8e", "posthaste replay --tenant acme dlv_01k3f8m4qse3y9y6yq6d2mzq8e"},
	"endpoints list":          {"posthaste endpoints list", "posthaste endpoints list --tenant '*' --json"},
	"endpoints get":           {"posthaste endpoints get ep_01k3f8m4qse3y9y6yq6d2mzq8e", "posthaste endpoints get uid:billing --json"},
	"endpoints create":        {"posthaste endpoints create https://example.com/hooks --types 'invoice.*'", "posthaste endpoints create https://example.com/hooks --uid billing --description Billing"},
	"endpoints put":           {"posthaste endpoints put billing https://example.com/hooks", "posthaste endpoints put billing https://example.com/hooks --types 'invoice.*,order.paid'"},
	"endpoints update":        {"posthaste endpoints update uid:billing --url https://example.com/v2", `posthaste endpoints update uid:billing --patch '{"retry":{"timeout":"5s"}}'`},
	"endpoints delete":        {"posthaste endpoints delete ep_01k3f8m4qse3y9y6yq6d2mzq8e", "posthaste endpoints delete uid:billing"},
	"endpoints pause":         {"posthaste endpoints pause ep_01k3f8m4qse3y9y6yq6d2mzq8e", "posthaste endpoints pause uid:billing"},
	"endpoints resume":        {"posthaste endpoints resume ep_01k3f8m4qse3y9y6yq6d2mzq8e", "posthaste endpoints resume uid:billing"},
	"endpoints test":          {"posthaste endpoints test uid:billing", "posthaste endpoints test ep_01k3f8m4qse3y9y6yq6d2mzq8e --json"},
	"endpoints rotate-secret": {"posthaste endpoints rotate-secret uid:billing", "posthaste endpoints rotate-secret uid:billing --overlap 0s"},
	"tail":                    {"posthaste tail", "posthaste tail --types delivery.dead --json"},
	"outbox install":          {"posthaste outbox install --database postgres://owner@host/shop --grant-app shop --grant-relay relay", "posthaste outbox install --database shop.db --create"},
	"outbox relay":            {"posthaste outbox relay --db postgres://user@host/posthaste --outbox postgres://relay@host/shop", "posthaste outbox relay --config relay.conf"},
	"outbox status":           {"posthaste outbox status --database postgres://relay@host/shop", "posthaste outbox status --database shop.db --json"},
	"outbox parked":           {"posthaste outbox parked --database postgres://relay@host/shop", "posthaste outbox parked --database shop.db --json --limit 1000"},
	"outbox retry":            {"posthaste outbox retry --database shop.db --all", "posthaste outbox retry --database shop.db 0b69d1ec-4e3e-4f5b-8a58-0d8a1fbd0a1a"},
	"outbox drop":             {"posthaste outbox drop --database shop.db --all", "posthaste outbox drop --database shop.db 0b69d1ec-4e3e-4f5b-8a58-0d8a1fbd0a1a"},
	"migrate apply":           {"posthaste migrate --db postgres://user@host/posthaste", "posthaste migrate --db ./posthaste.db"},
	"migrate print":           {"posthaste migrate print", "posthaste migrate print --db postgres://"},
	"verify":                  {"posthaste verify --db posthaste.db", "posthaste verify --db postgres://user@host/posthaste --json"},
	"config print":            {"posthaste config print", "posthaste config print --config posthaste.conf --json"},
	"config default":          {"posthaste config default > posthaste.conf", "posthaste config default | grep -A1 -- --retention"},
	"completion bash":         {"source <(posthaste completion bash)", "posthaste completion bash > /etc/bash_completion.d/posthaste"},
	"completion zsh":          {"source <(posthaste completion zsh)", `posthaste completion zsh > "${fpath[1]}/_posthaste"`},
	"completion fish":         {"posthaste completion fish | source", "posthaste completion fish > ~/.config/fish/completions/posthaste.fish"},
	"version":                 {"posthaste version", "posthaste version --json"},
	"sources list":            {"posthaste sources list", "posthaste sources list --json"},
	"sources get":             {"posthaste sources get src_mq8ek3f8m4qse3y9y6yq6d2z01", "posthaste sources get uid:stripe --json"},
	"sources create":          {"POSTHASTE_SOURCE_SECRET=whsec_… posthaste sources create stripe", "posthaste sources create github --uid github"},
	"sources put":             {"posthaste sources put stripe stripe", "posthaste sources put github github --name GitHub"},
	"sources update":          {"posthaste sources update uid:stripe --name Stripe", "posthaste sources update uid:stripe --setting tolerance=10m"},
	"tenants put":             {"posthaste tenants put customer-7 --name acme", "posthaste tenants put customer-7 --name acme --metadata plan=pro"},
	"tenants update":          {"posthaste tenants update acme --metadata plan=pro", "posthaste tenants update acme --uid customer-7"},
	"sources delete":          {"posthaste sources delete src_mq8ek3f8m4qse3y9y6yq6d2z01", "posthaste sources delete uid:stripe"},
	"sources rejections":      {"posthaste sources rejections uid:stripe", "posthaste sources rejections uid:stripe --json"},
	"tenants list":            {"posthaste tenants list", "posthaste tenants list --json"},
	"tenants get":             {"posthaste tenants get acme", "posthaste tenants get uid:customer-7"},
	"tenants create":          {"posthaste tenants create acme", "posthaste tenants create acme --uid customer-7 --metadata plan=pro"},
	"tenants delete":          {"posthaste tenants delete acme", "posthaste tenants delete uid:customer-7"},
}

// addExamples gives each command its examples.
func addExamples(node *kong.Node, path string) {
	for _, child := range node.Children {
		name := strings.TrimSpace(path + " " + child.Name)
		if lines := examples[name]; lines != nil {
			child.Detail = "Examples:\n\n  " + strings.Join(lines, "\n  ")
		}
		addExamples(child, name)
	}
}
