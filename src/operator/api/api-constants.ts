/** Names and limits that the server of the API and its clients share. No schema, so that a client loads nothing for it. */

/** Both ends must say the same number. */
export const API_VERSION = 1

export const FRAMES_TYPE = 'application/vnd.craik.frames'
export const LINES_TYPE = 'application/jsonl'
export const BYTES_TYPE = 'application/octet-stream'

export const HEADER = {
  /** A grant that the request is to be decided with; without it a usable one is looked up. */
  grant: 'craik-grant',
  /** The receipt that a job was begun under. */
  receipt: 'craik-receipt',
  /** `1`: the job was started by this request; `0`: it was known. */
  created: 'craik-created',
  /** Bytes of the whole file. */
  size: 'craik-size',
  /** Of a snapshot as a whole. */
  digest: 'craik-digest',
} as const

/** What follows `101 Switching Protocols` is the raw byte stream of a port. */
export const PORT_PROTOCOL = 'craik-tcp'

/** How a path names a sandbox: its id, or its name. */
export const SANDBOX_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/
export const VOLUME_NAME = /^[a-z0-9][a-z0-9-]{0,62}$/

export const API_LIMITS = {
  /** Of a JSON body; the longest argv and environment fit. */
  jsonBytes: 1024 * 1024,
  /** Of each stream of a buffered exec. */
  bufferedBytes: 1024 * 1024,
  /** Of the input of a buffered exec. */
  bufferedInputBytes: 512 * 1024,
  argvItems: 4096,
  argvBytes: 512 * 1024,
  environmentNames: 256,
  environmentBytes: 256 * 1024,
  pathBytes: 4096,
  destinationBytes: 2048,
  nameBytes: 64,
  listEntries: 1000,
  mounts: 8,
  volumes: 8,
  timeoutMs: 7 * 24 * 3600_000,
  graceMs: 60_000,
  outputBytes: 16 * 1024 * 1024 * 1024,
  columns: 1000,
} as const
