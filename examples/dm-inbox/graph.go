package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/posthaste-dev/posthaste/inbound/meta"
)

// Graph calls Meta's Graph API, or what stands in for it.
type Graph struct {
	base string // such as https://graph.facebook.com/v23.0
	http *http.Client
}

// OutgoingMessage is what is sent.
type OutgoingMessage struct {
	Text string `json:"text"`
	// Metadata comes back in the message's echo.
	Metadata string `json:"metadata,omitempty"`
}

// maxGraphBytes is more than any answer of Meta's to a message.
const maxGraphBytes = 64 << 10

// Send sends a message from an account to a customer, and returns the message's id. Its errors are for
// [meta.Advise]: a *[meta.GraphError], or one of the network.
// https://developers.facebook.com/docs/messenger-platform/reference/send-api
func (g Graph) Send(ctx context.Context, account Account, userID string, message OutgoingMessage) (mid string, err error) {
	body, err := json.Marshal(map[string]any{
		"recipient": map[string]string{"id": userID}, "messaging_type": "RESPONSE", "message": message,
	})
	if err != nil {
		return "", err
	}
	target := g.base + "/" + url.PathEscape(account.ID) + "/messages"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+account.Token) // not in the URL, which ends up in logs
	response, err := g.http.Do(request)
	if err != nil {
		return "", fmt.Errorf("call the graph api: %w", err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxGraphBytes))
	if err != nil {
		return "", fmt.Errorf("read the answer of the graph api: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return "", meta.ParseError(response.StatusCode, response.Header, answer)
	}
	var sent struct {
		MessageID string `json:"message_id"`
	}
	if err := json.Unmarshal(answer, &sent); err != nil {
		return "", fmt.Errorf("read the answer of the graph api: %w", err)
	}
	if sent.MessageID == "" {
		return "", errors.New("read the answer of the graph api: it has no message_id")
	}
	return sent.MessageID, nil
}
