/** How much and how long of one way out. */

export interface EgressLimits {
  /** Tunnels and requests of one caller at once. */
  readonly connectionsPerCaller: number
  readonly lookupMs: number
  readonly connectMs: number
  /** Until the first words of TLS are there. */
  readonly helloMs: number
  /** Without a byte either way: also of a client that does not read. */
  readonly idleMs: number
  /** The same, once one side has said that it sends no more. */
  readonly halfOpenMs: number
  readonly totalMs: number
  /** How often open ones are held against the rules. */
  readonly recheckMs: number
}

export const DEFAULT_EGRESS_LIMITS: EgressLimits = {
  connectionsPerCaller: 256,
  lookupMs: 10_000,
  connectMs: 15_000,
  helloMs: 60_000,
  idleMs: 10 * 60_000,
  halfOpenMs: 2 * 60_000,
  totalMs: 12 * 3600_000,
  recheckMs: 2_000,
}

/** For the HTTP server in front: heads are small, come soon, and are read strictly. */
export const SERVER_OPTIONS = {
  insecureHTTPParser: false,
  requireHostHeader: true,
  maxHeaderSize: 32 * 1024,
  headersTimeout: 20_000,
  // A body may take its time: what does not move is ended by `idleMs`.
  requestTimeout: 0,
  connectionsCheckingInterval: 5_000,
  keepAliveTimeout: 30_000,
} as const

export const MAX_HEADERS = 200
