package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/posthaste-dev/posthaste/inbound/meta/metatest"
)

// demoGraph stands in for Meta: it takes messages as the Graph API does, and sends
// their echo and the customer's read to the webhook, signed. A text that begins with
// a class of errors is answered with one of them, such as "/rate_limited hello".
type demoGraph struct {
	webhook, appSecret string
	http               *http.Client
	log                *slog.Logger
}

// demoErrors are answers of Meta's, by the class that they belong to.
var demoErrors = map[string]string{
	"/terminal":     `{"error":{"message":"This message is sent outside of allowed window.","type":"OAuthException","code":10,"error_subcode":2018278,"fbtrace_id":"demo"}}`,
	"/reconnect":    `{"error":{"message":"Error validating access token: the session has expired.","type":"OAuthException","code":190,"error_subcode":463,"fbtrace_id":"demo"}}`,
	"/rate_limited": `{"error":{"message":"Calls to this API have exceeded the rate limit.","type":"OAuthException","code":613,"fbtrace_id":"demo"}}`,
	"/transient":    `{"error":{"message":"An unexpected error has occurred. Please retry later.","type":"OAuthException","code":2,"is_transient":true,"fbtrace_id":"demo"}}`,
}

func (g demoGraph) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Recipient struct{ ID string }
		Message   OutgoingMessage
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxGraphBytes))
	if err == nil {
		err = json.Unmarshal(body, &request)
	}
	if err != nil {
		http.Error(w, `{"error":{"message":"Invalid parameter","type":"OAuthException","code":100}}`, http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	first, _, _ := strings.Cut(request.Message.Text, " ")
	if answer, isError := demoErrors[first]; isError {
		w.WriteHeader(http.StatusBadRequest) // also for a rate limit, as Meta has it
		_, _ = io.WriteString(w, answer)
		return
	}
	mid := "m_demo_" + rand.Text()
	_ = json.NewEncoder(w).Encode(map[string]string{"recipient_id": request.Recipient.ID, "message_id": mid})
	account := r.PathValue("account")
	go g.echo(context.WithoutCancel(r.Context()), metatest.Chat{Account: account, Customer: request.Recipient.ID}, mid, request.Message)
}

func (g demoGraph) echo(ctx context.Context, chat metatest.Chat, mid string, message OutgoingMessage) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	now := time.Now()
	echo := chat.Echo(now, mid, message.Text)
	echo.Message["metadata"] = message.Metadata
	for _, item := range []metatest.Item{echo, chat.Seen(now.Add(time.Second), mid)} {
		body := metatest.Encode("instagram", metatest.Messaging(chat.Account, now, item))
		request, err := metatest.NewRequest(ctx, g.webhook, g.appSecret, body)
		if err == nil {
			var response *http.Response
			if response, err = g.http.Do(request); err == nil {
				_ = response.Body.Close()
				if response.StatusCode != http.StatusOK {
					err = fmt.Errorf("answered %d: %s", response.StatusCode, bytes.TrimSpace(body))
				}
			}
		}
		if err != nil {
			g.log.WarnContext(ctx, "the demo's echo did not arrive", "err", err)
		}
	}
}
