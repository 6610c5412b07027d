package httpapi

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/posthaste-dev/posthaste"
)

// What the OpenAPI document says of each route, in the order of routes.go.

var (
	pageParams = []param{
		{name: "limit", text: "How many rows, 50 where it is left out", schema: huma.Schema{Type: huma.TypeInteger, Minimum: number(1), Maximum: number(maxLimit)}},
		{name: "cursor", text: `Where the page begins: "next" of the page before`},
	}
	timeParams = []param{
		{name: "since", text: "Accepted at this time or later", schema: huma.Schema{Type: huma.TypeString, Format: "date-time"}},
		{name: "until", text: "Accepted before this time", schema: huma.Schema{Type: huma.TypeString, Format: "date-time"}},
	}
	typeParam    = param{name: "type", text: "The event's type, exactly"}
	deletedParam = param{name: "deleted", text: "true: deleted ones too", schema: huma.Schema{Type: huma.TypeString, Enum: []any{"true", "false"}}}
	matchParams  = []param{{name: headerIfMatch, in: "header", text: "The ETag that the object has to have, a list of them, or *; else 412 and nothing is done. A weak tag matches nothing"}}
	putParams    = append(matchParams, param{name: headerIfNoneMatch, in: "header", text: "*: only make it; where there is one, 412 and nothing is done"})
)

func number(n float64) *float64 { return &n }

func paramsOf(lists ...[]param) (all []param) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

var (
	acceptEventOperation = operation{
		tag: "Events", summary: "Accept an event",
		text: "Answers 202 once the event and its deliveries are committed to disk. Repeat a request that was answered with 503 or not at all " +
			"with the same Idempotency-Key: it is stored once. 200 says that it had been stored before. " +
			"An unknown header that begins with Posthaste- is refused. " +
			"CloudEvents 1.0 are understood in binary mode (ce- headers) and in structured mode (application/cloudevents+json): the attributes id, source, " +
			"specversion and type are required, time, subject, dataschema and datacontenttype have to be as the specification says, and the event is delivered in the mode that it came in, with the very bytes of its body. " +
			"Its idempotency key is its source, a space and its id, or sha256: and the SHA-256 of that in hex where it is longer than 255 bytes.",
		params: []param{
			{name: "type", text: "The event's type, where the header is not given"},
			{name: headerEventType, in: "header", text: "The event's type: 1 to 128 of a-z A-Z 0-9 . _ - / :"},
			{name: headerIdempotencyKey, in: "header", text: "1 to 255 bytes. A second event with it is not stored"},
			{name: headerEndpoint, in: "header", text: "Only to these endpoints, by their ids or your own as uid:MINE, whatever they subscribe to", repeats: true},
			{name: prefixForward + "*", in: "header", text: "Sent on with each delivery, under the name that follows the prefix: Posthaste-Forward-X-Trace: abc becomes X-Trace: abc. " +
				"20 headers and 4 KiB at most; none that belongs to the connection (Host, Transfer-Encoding …), Content-*, Authorization, Cookie, webhook-*, posthaste-* or ce-*", repeats: true},
			{name: headerOrderKey, in: "header", text: "1 to 255 bytes, kept with the event"},
			{name: "Content-Encoding", in: "header", text: "Kept, and sent on"},
			{name: "traceparent", in: "header", text: "W3C Trace Context: kept, and sent on. One that is not valid is ignored; the extension of that name of a CloudEvent goes before it"},
			{name: "ce-id", in: "header", text: "Of a CloudEvent in binary mode: required there, as are ce-source, ce-specversion and ce-type. All ce- headers are sent on"},
			{name: "ce-source", in: "header", text: "A URI reference"},
			{name: "ce-specversion", in: "header", text: "1.0"},
			{name: "ce-type", in: "header", text: "The event's type. Where it is also given in another place, the two have to agree"},
		},
		rawBody: true, status: 202, also: 200, out: receiptBody{},
		codes: []posthaste.Code{posthaste.CodeIdempotencyMismatch, posthaste.CodeOverloaded},
	}
	acceptBatchOperation = operation{
		tag: "Events", summary: "Accept a batch of events",
		text: "Lines stand alone: each is answered as if it had come by itself, and one that is wrong harms no other. All that are accepted are one commit, " +
			"and are on disk when the answer comes. Results are in the order of the lines; blank lines are skipped and have none. " +
			"An answer other than 200 means that no line is known to be accepted; 503 is one, where none could be taken at the moment.",
		params: []param{{name: "traceparent", in: "header", text: "W3C Trace Context: of each line that has none of its own"}},
		in:     batchLine{}, required: []string{"type"}, inType: "application/x-ndjson", inAlso: mediaBatched,
		inText: "JSON in lines, 1,000 lines and 8 MiB at most; the schema is a line's. Or, as application/cloudevents-batch+json, an array of CloudEvents, " +
			"each of which is delivered as application/cloudevents+json, as it stands in the array.",
		status: 200, out: batchBody{}, codes: []posthaste.Code{posthaste.CodeOverloaded},
	}
	listEventsOperation = operation{
		tag: "Events", summary: "List events", status: 200, out: page[eventBody]{},
		params: paramsOf([]param{
			typeParam, {name: "source", text: "Where it came in: api, or the id of a source"}, {name: "idempotency_key", text: "The key it came with"},
			{name: "parent", text: "The id of the event that caused it"},
		}, timeParams, pageParams),
	}
	readEventOperation   = operation{tag: "Events", summary: "Read an event", status: 200, out: eventBody{}}
	readPayloadOperation = operation{tag: "Events", summary: "Read an event's payload", text: "The very bytes that were accepted, with their content type; their content encoding is in Posthaste-Content-Encoding.", status: 200, outType: "*/*"}
	resendEventOperation = operation{tag: "Events", summary: "Send an event once more", text: "Makes a new delivery with the same webhook-id.", in: resendRequest{}, required: []string{"endpoint_id"}, status: 201, out: deliveryBody{}, codes: []posthaste.Code{posthaste.CodeEndpointDeleted, posthaste.CodeExpiredEvent}}

	changeCodes = []posthaste.Code{posthaste.CodeConflict, posthaste.CodePreconditionFailed}
	matchCodes  = []posthaste.Code{posthaste.CodePreconditionFailed}

	createEndpointOperation = operation{tag: "Endpoints", summary: "Make an endpoint", text: "The answer shows the secret, this once.", in: createEndpointRequest{}, required: []string{"url"}, status: 201, out: endpointBody{}, codes: []posthaste.Code{posthaste.CodeConflict}}
	listEndpointsOperation  = operation{tag: "Endpoints", summary: "List endpoints", params: paramsOf([]param{deletedParam}, pageParams), status: 200, out: page[endpointBody]{}}
	readEndpointOperation   = operation{tag: "Endpoints", summary: "Read an endpoint", text: "By its id, or by your own as uid:MINE. A deleted one can be read by its id.", params: matchParams, status: 200, out: endpointBody{}, codes: matchCodes}
	putEndpointOperation    = operation{
		tag: "Endpoints", summary: "Make or replace an endpoint",
		text: "PUT to uid:MINE makes the endpoint of your own id and answers 201 with its secret, or replaces what you wrote of one that exists and answers 200. " +
			"The same request again changes nothing, and requests at once make one endpoint. What is left out has its default, but for enabled and secret; a pause stays. " +
			"PUT to an id only replaces.",
		params: putParams, in: putEndpointRequest{}, required: []string{"url"}, status: 200, also: 201, out: endpointBody{}, codes: changeCodes,
	}
	patchEndpointOperation  = operation{tag: "Endpoints", summary: "Change an endpoint", text: "A JSON Merge Patch: what is left out stays, null goes back to the default. A change of nothing makes no new version.", params: matchParams, in: patchEndpointRequest{}, status: 200, out: endpointBody{}, codes: changeCodes}
	deleteEndpointOperation = operation{tag: "Endpoints", summary: "Delete an endpoint", text: "What waits for it ends dead; its history stays readable, and its uid is free again.", params: matchParams, status: 204, codes: matchCodes}
	pauseEndpointOperation  = operation{tag: "Endpoints", summary: "Pause an endpoint", text: "Its deliveries are made and wait.", params: matchParams, status: 200, out: endpointBody{}, codes: changeCodes}
	resumeEndpointOperation = operation{tag: "Endpoints", summary: "Resume an endpoint", params: matchParams, status: 200, out: endpointBody{}, codes: changeCodes}
	rotateSecretOperation   = operation{
		tag: "Endpoints", summary: "Replace an endpoint's secret",
		text: "The answer shows the new secret, this once. Until the overlap ends each delivery is signed with both, the new one first: scheme standard then has two signatures " +
			"separated by a space, of which a receiver accepts either; scheme hex has two separated by a comma. An attempt that begins when the overlap has ended is signed with the new one alone. " +
			"5 secrets at most sign at once.",
		params: matchParams, in: rotateRequest{}, status: 200, out: endpointBody{}, codes: changeCodes,
	}
	testEndpointOperation = operation{tag: "Endpoints", summary: "Send a test event", text: "To this endpoint alone, whatever it subscribes to.", params: matchParams, in: testRequest{}, status: 202, out: receiptBody{}, codes: []posthaste.Code{posthaste.CodeOverloaded, posthaste.CodePreconditionFailed}}

	createSourceOperation = operation{
		tag: "Sources", summary: "Make a source", text: "The answer has the path that the provider sends to: all methods, no key, up to max_body_bytes. " +
			"A delivery that its provider's signature vouches for is stored as an event like any other, of a type such as stripe.invoice.paid, and then answered as the provider expects it; " +
			"the same delivery again is answered the same and stored once. One that cannot be verified is answered with 401 and kept as a rejection.",
		in: sourceRequest{}, required: []string{"provider"}, status: 201, out: sourceBody{}, codes: []posthaste.Code{posthaste.CodeConflict},
	}
	listSourcesOperation = operation{tag: "Sources", summary: "List sources", params: pageParams, status: 200, out: page[sourceBody]{}}
	readSourceOperation  = operation{tag: "Sources", summary: "Read a source", text: "By its id, or by your own as uid:MINE.", params: matchParams, status: 200, out: sourceBody{}, codes: matchCodes}
	putSourceOperation   = operation{
		tag: "Sources", summary: "Make or replace a source",
		text:   "PUT to uid:MINE makes the source of your own id, or replaces what you wrote of one that exists. The same request again changes nothing. PUT to an id only replaces.",
		params: putParams, in: sourceRequest{}, required: []string{"provider"}, status: 200, also: 201, out: sourceBody{}, codes: changeCodes,
	}
	patchSourceOperation = operation{
		tag: "Sources", summary: "Change a source",
		text:   "A JSON Merge Patch: what is left out stays, the secrets too. To replace a secret without losing a delivery, give both, and later the new one alone. A change holds within 2 s on every replica.",
		params: matchParams, in: sourceRequest{}, status: 200, out: sourceBody{}, codes: changeCodes,
	}
	deleteSourceOperation   = operation{tag: "Sources", summary: "Delete a source", text: "Its path is unknown from then on, and its rejections go with it; the events that came through it stay.", params: matchParams, status: 204, codes: matchCodes}
	listRejectionsOperation = operation{tag: "Sources", summary: "List what a source rejected", text: "The newest 100 deliveries that could not be verified, each with a diagnosis. Of many in one second some are kept.", params: pageParams, status: 200, out: page[rejectionBody]{}}

	listDeliveriesOperation = operation{
		tag: "Deliveries", summary: "List deliveries", status: 200, out: page[deliveryBody]{},
		params: paramsOf([]param{
			{name: "status", text: "Where they stand", schema: huma.Schema{Type: huma.TypeString, Enum: []any{"pending", "delivering", "delivered", "dead"}}},
			{name: "endpoint_id", text: "Of this endpoint: its id, or your own as uid:MINE"}, {name: "event_id", text: "Of this event"}, typeParam,
		}, timeParams, pageParams),
	}
	readDeliveryOperation   = operation{tag: "Deliveries", summary: "Read a delivery with its attempts", status: 200, out: deliveryBody{}}
	replayDeliveryOperation = operation{
		tag: "Deliveries", summary: "Replay a dead delivery", text: "Starts a new run: schedule and deadline begin anew, attempt numbers go on.",
		status: 200, out: replayBody{},
		codes: []posthaste.Code{posthaste.CodeNotDead, posthaste.CodeEndpointDeleted, posthaste.CodeExpiredEvent, posthaste.CodeUnreadable, posthaste.CodeTooLarge},
	}

	skipDeliveryOperation = operation{
		tag: "Deliveries", summary: "Skip a pending delivery",
		text:   "Ends it unsent: dead, reason skipped. Where an endpoint is ordered, what waits behind it follows. An attempt that is under way ends, and changes nothing any more unless it succeeds before this.",
		status: 200, out: skipBody{}, codes: []posthaste.Code{posthaste.CodeNotPending, posthaste.CodeUnreadable, posthaste.CodeTooLarge},
	}

	streamOperation = operation{
		tag: "Stream", summary: "Follow what becomes of events, live",
		text: "Server-sent events, until you close the connection. event is what happened, data a JSON object of tenant, delivery_id, event_id, endpoint_id, type, correlation_id and at " +
			"(those that there are; endpoint.gate has gate, the endpoint's gate as the endpoint shows it). id is opaque: with it in Last-Event-ID a later request goes on after that event, without gap and without repetition, " +
			"on any replica, for 24 hours. An event stream.reset says that events may be missing, since the id is older than that or unknown; the stream then goes on from the present. " +
			"A comment comes every 15 seconds, with a new id. A client that does not read is disconnected, and can go on where it was.",
		params: []param{
			{name: "types", text: "What to be told of, separated by commas: event.accepted, delivery.delivered, delivery.dead, endpoint.gate. Everything where it is left out"},
			{name: "last_event_id", text: "Instead of the header, which a browser can't set on its first request"},
			{name: headerLastEventID, in: "header", text: "The id of the last event that you saw. It wins over last_event_id"},
		},
		status: 200, outType: "text/event-stream", codes: []posthaste.Code{posthaste.CodeInvalid, posthaste.CodeUnavailable},
	}

	tenantCodes = append([]posthaste.Code{posthaste.CodeInvalid, posthaste.CodeNotFound}, changeCodes...)

	createTenantOperation = operation{tag: "Tenants", summary: "Make a tenant", in: tenantRequest{}, required: []string{"name"}, status: 201, out: tenantBody{}, codes: []posthaste.Code{posthaste.CodeConflict}}
	listTenantsOperation  = operation{tag: "Tenants", summary: "List tenants", params: paramsOf([]param{deletedParam}, pageParams), status: 200, out: page[tenantBody]{}, codes: []posthaste.Code{posthaste.CodeInvalid}}
	readTenantOperation   = operation{tag: "Tenants", summary: "Read a tenant", text: "By its name, or by your own id for it as uid:MINE. A deleted one can be read by its name.", params: matchParams, status: 200, out: tenantBody{}, codes: append([]posthaste.Code{posthaste.CodeInvalid, posthaste.CodeNotFound}, matchCodes...)}
	putTenantOperation    = operation{
		tag: "Tenants", summary: "Make or replace a tenant",
		text:   "PUT to uid:MINE makes the tenant of your own id, for which it needs a name, or replaces the metadata of one that exists. The same request again changes nothing. PUT to a name only replaces.",
		params: putParams, in: tenantRequest{}, status: 200, also: 201, out: tenantBody{}, codes: tenantCodes,
	}
	patchTenantOperation  = operation{tag: "Tenants", summary: "Change a tenant", text: "A JSON Merge Patch of uid and metadata; the name never changes.", params: matchParams, in: tenantRequest{}, status: 200, out: tenantBody{}, codes: tenantCodes}
	deleteTenantOperation = operation{
		tag: "Tenants", summary: "Delete a tenant",
		text: "Its endpoints are deleted with it, and what waits for them ends dead. From then on an event or an endpoint for it is answered with 404, within 2 s on every replica. " +
			"An admin key that names it in Posthaste-Tenant still reads its history; its name is not given to another. The tenants default and operator cannot be deleted.",
		params: matchParams, status: 204, codes: tenantCodes,
	}

	liveOperation    = operation{tag: "Operations", summary: "Does the process answer?", status: 200, out: healthBody{}}
	readyOperation   = operation{tag: "Operations", summary: "Can events be accepted and delivered here now?", status: 200, out: readyBody{}, codes: []posthaste.Code{posthaste.CodeUnavailable}}
	metricsOperation = operation{tag: "Operations", summary: "Metrics in the Prometheus text format", status: 200, outType: "text/plain"}
	openAPIOperation = operation{tag: "Operations", summary: "This document", status: 200, outType: "application/json"}
	docsOperation    = operation{tag: "Operations", summary: "This document, to be read", status: 200, outType: "text/html"}
	homeOperation    = operation{tag: "Operations", summary: "What this is", status: 200, out: homeBody{}}
)
