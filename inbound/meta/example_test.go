package meta_test

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/posthaste-dev/posthaste/inbound/meta"
)

func ExampleParse() {
	body := []byte(`{"object":"instagram","entry":[{"id":"17841400000000001","time":1700000000123,"messaging":[
		{"sender":{"id":"9001"},"recipient":{"id":"17841400000000001"},"timestamp":1700000000045,
		 "message":{"mid":"aWd.1","text":"Is it still available? \ud83d\ude00"}},
		{"sender":{"id":"9001"},"recipient":{"id":"17841400000000001"},"timestamp":1700000000052,"read":{"mid":"aWd.0"}}]}]}`)
	webhook, err := meta.Parse(body)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, item := range webhook.Items {
		fmt.Println(item.Type, item.Key)
	}
	message, err := meta.DecodeMessage(webhook.Items[0].Payload)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(message.Customer().ID, message.Text, message.At)
	// Output:
	// meta.message instagram/17841400000000001/message/aWd.1
	// meta.read instagram/17841400000000001/read/9001/aWd.0
	// 9001 Is it still available? 😀 2023-11-14 22:13:20.045 +0000 UTC
}

func ExampleAdvise() {
	answer := []byte(`{"error":{"message":"Application request limit reached","type":"OAuthException","code":4,"fbtrace_id":"AbC"}}`)
	header := http.Header{"X-Business-Use-Case-Usage": {`{"1000001":[{"type":"messenger","estimated_time_to_regain_access":19}]}`}}
	err := fmt.Errorf("send the reply: %w", meta.ParseError(http.StatusForbidden, header, answer))

	advice := meta.Advise(err)
	fmt.Println(advice.Class, advice.Wait)
	if graph := (*meta.GraphError)(nil); errors.As(err, &graph) {
		fmt.Println(graph.TraceID)
	}
	// Output:
	// rate_limited 19m0s
	// AbC
}
