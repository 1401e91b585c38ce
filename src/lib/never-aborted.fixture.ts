/** A signal for tests that abort nothing. */
export const NEVER_ABORTED = new AbortController().signal
