package telemetry

import "go.opentelemetry.io/otel/attribute"

// Metrics, by name. Label values come from configuration, from the server's own accounts and keys, and from fixed
// lists, never from what clients send: a model's name is on spans and in the log, but in no label.
const (
	metricBuild          = "mneme_build_info"
	metricRequests       = "mneme_requests_total"
	metricDuration       = "mneme_request_duration_seconds"
	metricFirstByte      = "mneme_time_to_first_byte_seconds"
	metricTokens         = "mneme_tokens_total" //nolint:gosec // counts tokens of text and is no credential
	metricTranslations   = "mneme_translations_total"
	metricUpstreamErrors = "mneme_upstream_errors_total"
	metricRetries        = "mneme_upstream_retries_total"
	metricFallbacks      = "mneme_upstream_fallbacks_total"
	metricCoolDowns      = "mneme_upstream_cool_downs_total"
	metricBreaker        = "mneme_upstream_breaker_state"
	metricKeysReady      = "mneme_upstream_keys_ready"
	metricHeartbeats     = "mneme_heartbeats_total"
	metricReloads        = "mneme_config_reloads_total"
	metricCurrent        = "mneme_config_last_reload_successful"
	metricGap            = "mneme_stream_gap_seconds"
	metricCaptureLag     = "mneme_capture_lag_seconds"
	metricBytes          = "mneme_bytes_total"
	metricStoreQueue     = "mneme_store_queue"
	metricDigestQueue    = "mneme_digest_queue"
	metricLimited        = "mneme_limited_total"
	metricRequestsOpen   = "mneme_requests_open"
	metricStreamsOpen    = "mneme_streams_open"
	metricInFlightBytes  = "mneme_in_flight_bytes"
	metricInFlightLimit  = "mneme_in_flight_bytes_limit"
	metricConnections    = "mneme_connections_open"
	metricTurnedAway     = "mneme_connections_refused_total"
	metricCallerRequests = "mneme_caller_requests_total"
	metricCallerTokens   = "mneme_caller_tokens_total" //nolint:gosec // as above
	metricCallerCost     = "mneme_caller_cost_usd_total"
	metricKeyInfo        = "mneme_key_info"
	metricCaptures       = "mneme_captures_total"
	metricIndexLag       = "mneme_index_lag"
	metricEmbedCalls     = "mneme_embedder_calls_total"
	metricEmbedTokens    = "mneme_embedder_tokens_total" //nolint:gosec // as above
	metricSummaryCalls   = "mneme_summary_calls_total"
	metricSummaryTokens  = "mneme_summary_tokens_total"
	metricRecalls        = "mneme_recalls_total"
	metricRecallTokens   = "mneme_recall_tokens_total" //nolint:gosec // as above
	metricSpans          = "mneme_spans_total"

	metricClusterConnected      = "mneme_cluster_connected"
	metricClusterWaiting        = "mneme_cluster_waiting_exchanges"
	metricClusterWaitingSeconds = "mneme_cluster_waiting_seconds"
	metricClusterFrames         = "mneme_cluster_frames_total"
	metricClusterResent         = "mneme_cluster_resent_total"
	metricClusterLocal          = "mneme_cluster_local_total"
	metricClusterArrived        = "mneme_cluster_arrived_total"
	metricClusterRefused        = "mneme_cluster_refused_total"
	metricClusterAside          = "mneme_cluster_aside_exchanges"
	metricClusterTakenFrames    = "mneme_cluster_taken_frames_total"
	metricClusterTake           = "mneme_cluster_take_seconds"
	metricClusterBehind         = "mneme_cluster_stream_waiting_messages"
	metricClusterStream         = "mneme_cluster_stream_bytes"
	metricClusterStreamMost     = "mneme_cluster_stream_limit_bytes"
	metricClusterUndigested     = "mneme_cluster_undigested_exchanges"
	metricClusterUndigestedAge  = "mneme_cluster_undigested_seconds"
	metricClusterLocks          = "mneme_cluster_lock_waits"
	metricClusterBegun          = "mneme_cluster_packs_begun"
	metricClusterGoing          = "mneme_cluster_packs_going"
	metricClusterTries          = "mneme_cluster_take_tries_total"
	metricClusterUnsummarized   = "mneme_cluster_unsummarized_sessions"
	metricClusterLeads          = "mneme_cluster_leads"
	metricClusterTerms          = "mneme_cluster_terms_total"
	metricClusterIdentityAge    = "mneme_cluster_identity_age_seconds"
)

const (
	labelSurface   = "surface"   // chat, responses, messages, gemini, embeddings, pass
	labelFormat    = "format"    // spoken to the provider
	labelProvider  = "provider"  // name in the configuration; "none" for requests that were not placed
	labelOutcome   = "outcome"   // as in records
	labelStatus    = "status"    // 2xx, 4xx, 5xx …; "none" if the client left before it was answered
	labelKind      = "kind"      // of tokens, or of an error (codec.Kind)
	labelTreatment = "treatment" // emulated, dropped
	labelDirection = "direction" // of bytes: in, from clients; out, to them
	labelLimit     = "limit"     // of a key: requests_per_minute, tokens_per_minute, concurrent, tokens_per_month, repeats, stalled_tokens, and the budgets; or connections, connections_per_address
	labelReason    = "reason"    // why an attempt failed (router.Failure), or a centre refused something
	labelTo        = "to"        // provider of the fallback
	labelEndpoint  = "endpoint"  // base URL in the configuration
	labelAccount   = "account"   // of the caller; "other" after the first mostCallers keys
	labelKey       = "key"       // its id, or "other"
	labelResult    = "result"
	labelIndex     = "index" // words, vectors
	labelVersion   = "version"
	labelGo        = "go"
)

const (
	none  = "none"
	other = "other"
)

// Kinds of tokens. Input was neither read from nor written to a cache, so that the input kinds add up; reasoning is a
// part of output.
const (
	tokensInput = iota
	tokensCacheRead
	tokensCacheWrite
	tokensOutput
	tokensReasoning
	tokenKinds
)

var tokenKindNames = [tokenKinds]string{"input", "cache_read", "cache_write", "output", "reasoning"}

// Upper bounds of buckets, in seconds: a complete answer has its first byte when the model has finished, and an agent's
// turn may take the ten minutes that SDKs wait.
var (
	firstByteBuckets = []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180, 600}
	gapBuckets       = []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 15, 60}
	captureBuckets   = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5}
	takeBuckets      = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30} // 256 short chats take 0.2 s
	durationBuckets  = []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640}
)

// Attributes of spans, by OpenTelemetry's GenAI semantic conventions, which are in development and not in a released
// schema. So they are defined here, and spans name no schema URL.
const (
	attrOperation       = attribute.Key("gen_ai.operation.name")
	attrProvider        = attribute.Key("gen_ai.provider.name")
	attrConversation    = attribute.Key("gen_ai.conversation.id")
	attrRequestModel    = attribute.Key("gen_ai.request.model")
	attrRequestStream   = attribute.Key("gen_ai.request.stream")
	attrResponseModel   = attribute.Key("gen_ai.response.model")
	attrResponseID      = attribute.Key("gen_ai.response.id")
	attrFinishReasons   = attribute.Key("gen_ai.response.finish_reasons")
	attrFirstChunk      = attribute.Key("gen_ai.response.time_to_first_chunk") // seconds
	attrInputTokens     = attribute.Key("gen_ai.usage.input_tokens")           // the whole prompt
	attrOutputTokens    = attribute.Key("gen_ai.usage.output_tokens")
	attrCacheRead       = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	attrCacheWrite      = attribute.Key("gen_ai.usage.cache_write.input_tokens")
	attrCacheCreation   = attribute.Key("gen_ai.usage.cache_creation.input_tokens") // the former name, for one release
	attrTool            = attribute.Key("gen_ai.tool.name")
	attrReasoningTokens = attribute.Key("gen_ai.usage.reasoning.output_tokens")

	attrMemoryStore  = attribute.Key("gen_ai.memory.store.id") // the account
	attrMemoryRecord = attribute.Key("gen_ai.memory.record.id")
	attrMemoryCount  = attribute.Key("gen_ai.memory.record.count")

	attrErrorType     = attribute.Key("error.type")
	attrMethod        = attribute.Key("http.request.method")
	attrRoute         = attribute.Key("http.route")
	attrStatus        = attribute.Key("http.response.status_code")
	attrResendCount   = attribute.Key("http.request.resend_count")
	attrServerAddress = attribute.Key("server.address")
	attrServerPort    = attribute.Key("server.port")

	// Ours. The conversation is in the store under the exchange's id, and never on a span.
	attrExchange       = attribute.Key("mneme.exchange.id")
	attrSession        = attribute.Key("mneme.session.id")
	attrAccount        = attribute.Key("mneme.account")
	attrSurface        = attribute.Key("mneme.surface")
	attrFormat         = attribute.Key("mneme.format")
	attrProviderConfig = attribute.Key("mneme.provider")
	attrCredential     = attribute.Key("mneme.credential")
	attrOutcome        = attribute.Key("mneme.outcome")
)

// providerNames has the values of gen_ai.provider.name for the dialects whose names differ from them.
var providerNames = map[string]string{
	"gemini":  "gcp.gemini",
	"xai":     "x_ai",
	"mistral": "mistral_ai",
}
