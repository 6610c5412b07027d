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
		tag: "Events", summary: "Send an event",
		text: "Returns 202 after the event and its deliveries are committed to disk. If a request gets 503 or no answer, repeat it " +
			"with the same Idempotency-Key: the event is stored once. 200 means that it was stored before. " +
			"An unknown header that begins with Posthaste- is refused. " +
			"CloudEvents 1.0 are accepted in binary mode (ce- headers) and in structured mode (application/cloudevents+json). The attributes id, source, " +
			"specversion and type are required; time, subject, dataschema and datacontenttype must follow the specification. The event is delivered in the mode in which it was sent, with its body unchanged. " +
			"The idempotency key of a CloudEvent is its source, a space and its id, or sha256: and the SHA-256 of that in hex if it is longer than 255 bytes. " +
			"The binary and the structured form of one event are the same event if they have the same data.",
		params: []param{
			{name: "type", text: "Event type, if the header is not given"},
			{name: headerEventType, in: "header", text: "Event type: 1 to 128 of a-z A-Z 0-9 . _ - / :"},
			{name: headerIdempotencyKey, in: "header", text: "1 to 255 bytes. A second event with the same key is not stored"},
			{name: headerEndpoint, in: "header", text: "Deliver to these endpoints only, whatever they subscribe to: ids, or your own as uid:MINE", repeats: true},
			{name: prefixForward + "*", in: "header", text: "Header for receivers, without the prefix: Posthaste-Forward-X-Trace: abc becomes X-Trace: abc. " +
				"At most 20 headers and 4 KiB; not those of the connection (Host, Transfer-Encoding …), Content-*, Authorization, Cookie, webhook-*, posthaste-* or ce-*", repeats: true},
			{name: headerOrderKey, in: "header", text: "1 to 255 bytes, stored with the event"},
			{name: "Content-Encoding", in: "header", text: "Stored and sent to receivers"},
			{name: "traceparent", in: "header", text: "W3C Trace Context, stored and sent to receivers. An invalid one is ignored. A CloudEvent's extension of that name wins"},
			{name: "ce-id", in: "header", text: "Id of a CloudEvent in binary mode; required with ce-source, ce-specversion and ce-type. All ce- headers are sent to receivers"},
			{name: "ce-source", in: "header", text: "A URI reference"},
			{name: "ce-specversion", in: "header", text: "1.0"},
			{name: "ce-type", in: "header", text: "Event type. It must agree with a type given elsewhere in the request"},
		},
		rawBody: true, status: 202, also: 200, out: receiptBody{},
		codes: []posthaste.Code{posthaste.CodeIdempotencyMismatch, posthaste.CodeOverloaded},
	}
	acceptBatchOperation = operation{
		tag: "Events", summary: "Send a batch of events",
		text: "Each line is accepted or refused on its own. Accepted lines are on disk when the answer arrives. " +
			"Results are in the order of the lines; blank lines are skipped. " +
			"Any status other than 200, such as 503, means that no line is known to be accepted.",
		params: []param{{name: "traceparent", in: "header", text: "W3C Trace Context for lines without their own"}},
		in:     batchLine{}, required: []string{"type"}, inType: "application/x-ndjson", inAlso: mediaBatched,
		inText: "One JSON object a line, at most 1,000 lines and 8 MiB; the schema is that of a line. Or an array of CloudEvents as application/cloudevents-batch+json; " +
			"each is delivered as application/cloudevents+json, unchanged.",
		status: 200, out: batchBody{}, codes: []posthaste.Code{posthaste.CodeOverloaded},
	}
	listEventsOperation = operation{
		tag: "Events", summary: "List events", status: 200, out: page[eventBody]{},
		params: paramsOf([]param{
			typeParam, {name: "source", text: "Origin: api, or the id of a source"}, {name: "idempotency_key", text: "Idempotency key of the event"},
			{name: "parent", text: "Id of the event from which the events were made"},
		}, timeParams, pageParams),
	}
	readEventOperation   = operation{tag: "Events", summary: "Retrieve an event", status: 200, out: eventBody{}}
	readPayloadOperation = operation{tag: "Events", summary: "Retrieve an event's payload", text: "Returns the accepted bytes with their content type. Their content encoding is in the header Posthaste-Content-Encoding.", status: 200, outType: "*/*"}
	resendEventOperation = operation{tag: "Events", summary: "Resend an event", text: "Creates a new delivery with the same webhook-id.", in: resendRequest{}, required: []string{"endpoint_id"}, status: 201, out: deliveryBody{}, codes: []posthaste.Code{posthaste.CodeEndpointDeleted, posthaste.CodeExpiredEvent}}

	changeCodes = []posthaste.Code{posthaste.CodeConflict, posthaste.CodePreconditionFailed}
	matchCodes  = []posthaste.Code{posthaste.CodePreconditionFailed}

	createEndpointOperation = operation{tag: "Endpoints", summary: "Create an endpoint", text: "The answer contains the signing secret. It is not shown again. To be able to repeat the request, use PUT to uid:MINE.", in: createEndpointRequest{}, required: []string{"url"}, status: 201, out: endpointBody{}, codes: []posthaste.Code{posthaste.CodeConflict}}
	listEndpointsOperation  = operation{tag: "Endpoints", summary: "List endpoints", params: paramsOf([]param{deletedParam}, pageParams), status: 200, out: page[endpointBody]{}}
	readEndpointOperation   = operation{tag: "Endpoints", summary: "Retrieve an endpoint", text: "By id, or by your own id as uid:MINE. A deleted endpoint can be retrieved by id.", params: matchParams, status: 200, out: endpointBody{}, codes: matchCodes}
	putEndpointOperation    = operation{
		tag: "Endpoints", summary: "Create or replace an endpoint",
		text: "PUT to uid:MINE creates the endpoint with your own id and returns 201 with its secret, or replaces the definition of an existing one and returns 200. " +
			"Repeating a request changes nothing, and concurrent requests create one endpoint. Fields that are left out get their defaults, except enabled and secret; a pause stays. " +
			"The secret is in the 201 answer only. If that answer is lost, POST to rotate-secret with \"overlap\":\"0s\" returns a new one. To not depend on the answer, choose the secret and send it with each PUT. " +
			"PUT to an id replaces only.",
		params: putParams, in: putEndpointRequest{}, required: []string{"url"}, status: 200, also: 201, out: endpointBody{}, codes: changeCodes,
	}
	patchEndpointOperation  = operation{tag: "Endpoints", summary: "Update an endpoint", text: "JSON Merge Patch: fields that are left out stay, null restores the default. A patch without a change creates no new version.", params: matchParams, in: patchEndpointRequest{}, status: 200, out: endpointBody{}, codes: changeCodes}
	deleteEndpointOperation = operation{tag: "Endpoints", summary: "Delete an endpoint", text: "Waiting deliveries end dead. The history stays readable, and the uid can be used again.", params: matchParams, status: 204, codes: matchCodes}
	pauseEndpointOperation  = operation{tag: "Endpoints", summary: "Pause an endpoint", text: "Events still create deliveries, which wait until the endpoint is resumed.", params: matchParams, status: 200, out: endpointBody{}, codes: changeCodes}
	resumeEndpointOperation = operation{tag: "Endpoints", summary: "Resume an endpoint", params: matchParams, status: 200, out: endpointBody{}, codes: changeCodes}
	rotateSecretOperation   = operation{
		tag: "Endpoints", summary: "Rotate an endpoint's secret",
		text: "The answer contains the new secret. It is not shown again. During the overlap each delivery carries two signatures, the new one first: separated by a space " +
			"in the scheme standard, by a comma in the scheme hex. A receiver accepts either. Attempts that begin after the overlap are signed with the new secret alone. " +
			"At most 5 secrets sign at once.",
		params: matchParams, in: rotateRequest{}, status: 200, out: endpointBody{}, codes: changeCodes,
	}
	testEndpointOperation = operation{tag: "Endpoints", summary: "Send a test event", text: "Sends an event to this endpoint only, whatever it subscribes to.", params: matchParams, in: testRequest{}, status: 202, out: receiptBody{}, codes: []posthaste.Code{posthaste.CodeOverloaded, posthaste.CodePreconditionFailed}}

	createSourceOperation = operation{
		tag: "Sources", summary: "Create a source", text: "The answer contains the path for the provider's webhooks: any method, no key, up to max_body_bytes. " +
			"A webhook with a valid signature is stored as an event, with a type such as stripe.invoice.paid, and answered as the provider expects. " +
			"A repeated webhook gets the same answer and is stored once. A webhook that cannot be verified gets 401 and is recorded as a rejection.",
		in: sourceRequest{}, required: []string{"provider"}, status: 201, out: sourceBody{}, codes: []posthaste.Code{posthaste.CodeConflict},
	}
	listSourcesOperation = operation{tag: "Sources", summary: "List sources", params: pageParams, status: 200, out: page[sourceBody]{}}
	readSourceOperation  = operation{tag: "Sources", summary: "Retrieve a source", text: "By id, or by your own id as uid:MINE.", params: matchParams, status: 200, out: sourceBody{}, codes: matchCodes}
	putSourceOperation   = operation{
		tag: "Sources", summary: "Create or replace a source",
		text:   "PUT to uid:MINE creates the source with your own id, or replaces the definition of an existing one. Repeating a request changes nothing. PUT to an id replaces only.",
		params: putParams, in: sourceRequest{}, required: []string{"provider"}, status: 200, also: 201, out: sourceBody{}, codes: changeCodes,
	}
	patchSourceOperation = operation{
		tag: "Sources", summary: "Update a source",
		text:   "JSON Merge Patch: fields that are left out stay, including the secrets. To replace a secret without rejecting webhooks, set both, and later the new one alone. A change takes effect within 2 s on every replica.",
		params: matchParams, in: sourceRequest{}, status: 200, out: sourceBody{}, codes: changeCodes,
	}
	deleteSourceOperation   = operation{tag: "Sources", summary: "Delete a source", text: "Its path returns 404 from then on. Its rejections are deleted; its events stay.", params: matchParams, status: 204, codes: matchCodes}
	listRejectionsOperation = operation{tag: "Sources", summary: "List a source's rejections", text: "The newest 100 webhooks that could not be verified, each with a diagnosis. At most five a second are recorded.", params: pageParams, status: 200, out: page[rejectionBody]{}}

	listDeliveriesOperation = operation{
		tag: "Deliveries", summary: "List deliveries", status: 200, out: page[deliveryBody]{},
		params: paramsOf([]param{
			{name: "status", text: "Status of the delivery", schema: huma.Schema{Type: huma.TypeString, Enum: []any{"pending", "delivering", "delivered", "dead"}}},
			{name: "endpoint_id", text: "Id of the endpoint, or your own as uid:MINE"}, {name: "event_id", text: "Id of the event"}, typeParam,
		}, timeParams, pageParams),
	}
	readDeliveryOperation   = operation{tag: "Deliveries", summary: "Retrieve a delivery with its attempts", status: 200, out: deliveryBody{}}
	replayDeliveryOperation = operation{
		tag: "Deliveries", summary: "Replay a dead delivery", text: "Starts a new run: the retry schedule and the deadline restart, attempt numbers continue.",
		status: 200, out: replayBody{},
		codes: []posthaste.Code{posthaste.CodeNotDead, posthaste.CodeEndpointDeleted, posthaste.CodeExpiredEvent, posthaste.CodeUnreadable, posthaste.CodeTooLarge},
	}

	skipDeliveryOperation = operation{
		tag: "Deliveries", summary: "Skip a pending delivery",
		text:   "Ends the delivery without sending it: status dead, reason skipped. On an ordered endpoint the next delivery follows. An attempt under way has no effect unless it succeeds first.",
		status: 200, out: skipBody{}, codes: []posthaste.Code{posthaste.CodeNotPending, posthaste.CodeUnreadable, posthaste.CodeTooLarge},
	}

	streamOperation = operation{
		tag: "Stream", summary: "Stream changes",
		text: "Server-sent events until you close the connection. event is what happened; data is a JSON object with tenant, delivery_id, event_id, endpoint_id, type, correlation_id and at " +
			"(where they apply; endpoint.gate has gate, the endpoint's gate as the endpoint shows it). id is opaque. A request with it in Last-Event-ID continues after that event on any replica, without gaps or repetitions, for 24 hours. " +
			"An event stream.reset means that events may be missing, because the id is older or unknown; the stream continues from the present. " +
			"A comment is sent every 15 seconds, with a new id. A client that does not read is disconnected and can resume.",
		params: []param{
			{name: "types", text: "Changes to include, separated by commas: event.accepted, delivery.delivered, delivery.dead, endpoint.gate. Default: all"},
			{name: "last_event_id", text: "The same as the header, which a browser cannot set on its first request"},
			{name: headerLastEventID, in: "header", text: "Id of the last event received. It wins over last_event_id"},
		},
		status: 200, outType: "text/event-stream", codes: []posthaste.Code{posthaste.CodeInvalid, posthaste.CodeUnavailable},
	}

	tenantCodes = append([]posthaste.Code{posthaste.CodeInvalid, posthaste.CodeNotFound}, changeCodes...)

	createTenantOperation = operation{tag: "Tenants", summary: "Create a tenant", in: tenantRequest{}, required: []string{"name"}, status: 201, out: tenantBody{}, codes: []posthaste.Code{posthaste.CodeConflict}}
	listTenantsOperation  = operation{tag: "Tenants", summary: "List tenants", params: paramsOf([]param{deletedParam}, pageParams), status: 200, out: page[tenantBody]{}, codes: []posthaste.Code{posthaste.CodeInvalid}}
	readTenantOperation   = operation{tag: "Tenants", summary: "Retrieve a tenant", text: "By name, or by your own id as uid:MINE. A deleted tenant can be retrieved by name.", params: matchParams, status: 200, out: tenantBody{}, codes: append([]posthaste.Code{posthaste.CodeInvalid, posthaste.CodeNotFound}, matchCodes...)}
	putTenantOperation    = operation{
		tag: "Tenants", summary: "Create or replace a tenant",
		text:   "PUT to uid:MINE creates the tenant with your own id, which needs a name, or replaces the metadata of an existing one. Repeating a request changes nothing. PUT to a name replaces only.",
		params: putParams, in: tenantRequest{}, status: 200, also: 201, out: tenantBody{}, codes: tenantCodes,
	}
	patchTenantOperation  = operation{tag: "Tenants", summary: "Update a tenant", text: "JSON Merge Patch of uid and metadata. The name never changes.", params: matchParams, in: tenantRequest{}, status: 200, out: tenantBody{}, codes: tenantCodes}
	deleteTenantOperation = operation{
		tag: "Tenants", summary: "Delete a tenant",
		text: "Deletes its endpoints too; their waiting deliveries end dead. Within 2 s every replica answers requests for the tenant with 404. " +
			"An admin key that names it in Posthaste-Tenant can still read its history. The name cannot be used again. The tenants default and operator cannot be deleted.",
		params: matchParams, status: 204, codes: tenantCodes,
	}

	liveOperation    = operation{tag: "Operations", summary: "Check liveness", text: "Returns 200 while the process answers, also while it waits for the database.", status: 200, out: healthBody{}}
	readyOperation   = operation{tag: "Operations", summary: "Check readiness", text: "Returns 200 if this replica can accept, deliver and relay events now; else 503 with what is awaited.", status: 200, out: readyBody{}, codes: []posthaste.Code{posthaste.CodeUnavailable}}
	metricsOperation = operation{tag: "Operations", summary: "Retrieve metrics", text: "In the Prometheus text format.", status: 200, outType: "text/plain"}
	openAPIOperation = operation{tag: "Operations", summary: "OpenAPI document", status: 200, outType: "application/json"}
	docsOperation    = operation{tag: "Operations", summary: "API reference in HTML", status: 200, outType: "text/html"}
	homeOperation    = operation{tag: "Operations", summary: "Service information", status: 200, out: homeBody{}}
)
