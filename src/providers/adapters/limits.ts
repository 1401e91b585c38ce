/** How much of an answer is read before it counts as no answer at all. */

/** A status line and headers. Providers send about 2 KiB. */
export const HEADER_BYTES_MAX = 32 * 1024
/** One event. The last one of the Responses dialect repeats the whole answer and the request's tools. */
export const EVENT_CHARS_MAX = 16 * 1024 * 1024
/** Everything after the headers: the dialects wrap each token in up to 300 bytes of JSON. */
export const ANSWER_BYTES_MAX = 128 * 1024 * 1024
/** The text of one answer; 128,000 tokens are about 600,000 characters. */
export const TEXT_CHARS_MAX = 4 * 1024 * 1024
export const TOOL_CALLS_MAX = 128
/** The arguments of one tool call, as JSON. */
export const ARGUMENT_CHARS_MAX = 1024 * 1024
/** How deep arguments may be nested: whoever walks them recursively is safe. */
export const ARGUMENT_DEPTH_MAX = 64
/** Events in a row that bring neither text nor a tool call nor thinking. */
export const QUIET_EVENTS_MAX = 10_000
/** All the waiting for one answer put together, after its headers. */
export const ANSWER_WAIT_MS_MAX = 30 * 60_000
/**
 * No call lasts longer: that wait, and what comes before it (the key, the connection, the headers) with time to spare.
 * What a process that cannot be seen from here has begun is taken for lost by then.
 */
export const CALL_MS_MAX = ANSWER_WAIT_MS_MAX + 5 * 60_000
/** The body of a refusal. */
export const REFUSAL_BYTES_MAX = 64 * 1024
/** What is quoted of a provider's own words. */
export const QUOTE_CHARS_MAX = 200
/** What is looked at to find the secrets in the quoted part. */
export const QUOTE_CONTEXT_CHARS = 4_000
/** No provider counts this many tokens for one call. */
export const TOKENS_MAX = 2 ** 40
/** The longest pause that a provider can ask for. */
export const RETRY_AFTER_MS_MAX = 24 * 60 * 60_000
