/** The API calls for snapshots. */
import type { Readable } from 'node:stream'
import { CraikError } from '../errors.ts'
import { BYTES_TYPE, HEADER } from '../operator/api/api-constants.ts'
import type { ExportedBody, ListedSnapshotBody, SandboxBody, SnapshotBody } from '../operator/api/bodies.ts'
import type { ExportBody } from '../operator/api/requests.ts'
import type { ApiConnection } from './api-connection.ts'
import { type CallOptions, common, query, sandboxPath } from './api-paths.ts'
import { jsonOf, LostConnection, responseChunks } from './transport.ts'

/** Every `snapshot` is an id or a name. */
export interface SnapshotCalls {
  make(sandbox: string, body?: { readonly name?: string }, options?: CallOptions): Promise<SnapshotBody>
  /** Restores the sandbox's disk from the snapshot. The sandbox runs afterwards if it ran before. */
  restore(sandbox: string, snapshot: string, options?: CallOptions): Promise<SandboxBody>
  fork(
    sandbox: string,
    body?: { readonly name?: string; readonly from?: string },
    options?: CallOptions,
  ): Promise<SandboxBody>
  list(options?: CallOptions): Promise<readonly ListedSnapshotBody[]>
  get(snapshot: string, options?: CallOptions): Promise<SnapshotBody>
  delete(snapshot: string, options?: CallOptions): Promise<{ readonly id: string }>
  /** Returns the whole snapshot as one file. */
  read(snapshot: string, options?: CallOptions): Promise<SnapshotFile>
  /** Exports the snapshot to a destination, to which the supervisor sends it. */
  export(snapshot: string, body: ExportBody, options?: CallOptions): Promise<ExportedBody>
  /** `open` is called again when none of the snapshot was sent yet. */
  import(
    open: () => Readable,
    about: { readonly name?: string; readonly digest?: string },
    options?: CallOptions,
  ): Promise<SnapshotBody>
}

interface SnapshotFile {
  readonly bytes: number
  readonly digest: string
  /** Throws when the transfer breaks off. */
  readonly chunks: AsyncIterable<Buffer>
}

export function snapshotCalls(connection: ApiConnection): SnapshotCalls {
  const at = (snapshot: string, rest = '') => `/api/snapshots/${encodeURIComponent(snapshot)}${rest}`
  const post = <T>(path: string, json: unknown, options?: CallOptions) =>
    connection.json<T>({ method: 'POST', path, json, ...common(options) })
  return {
    make: (sandbox, body = {}, options) => post(sandboxPath(sandbox, '/snapshot'), body, options),
    restore: (sandbox, snapshot, options) => post(sandboxPath(sandbox, '/restore'), { snapshot }, options),
    fork: (sandbox, body = {}, options) => post(sandboxPath(sandbox, '/fork'), body, options),
    list: async (options) =>
      (
        await connection.json<{ snapshots: ListedSnapshotBody[] }>({
          method: 'GET',
          path: '/api/snapshots',
          ...common(options),
        })
      ).snapshots,
    get: (snapshot, options) => connection.json({ method: 'GET', path: at(snapshot), ...common(options) }),
    delete: (snapshot, options) =>
      connection.json({ method: 'DELETE', path: at(snapshot), ...common(options) }),
    async read(snapshot, options) {
      const response = await connection.send({
        method: 'GET',
        path: at(snapshot, '/bundle'),
        ...common(options),
      })
      const bytes = Number(response.headers[HEADER.size])
      return {
        bytes,
        digest: String(response.headers[HEADER.digest]),
        chunks: requireWhole(responseChunks(response), bytes, options?.signal),
      }
    },
    export: (snapshot, body, options) => post(at(snapshot, '/export'), body, options),
    import: (open, about, options) =>
      connection.persist(
        options?.signal,
        async (transport) =>
          jsonOf<SnapshotBody>(
            await transport.send({
              method: 'POST',
              path: `/api/snapshots${query({ ...about })}`,
              body: open(),
              ...common(options),
              headers: { 'content-type': BYTES_TYPE, ...common(options).headers },
            }),
          ),
        (error) => !(error instanceof LostConnection && error.sent),
      ),
  }
}

async function* requireWhole(
  chunks: AsyncIterable<Buffer>,
  bytes: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<Buffer> {
  let seen = 0
  try {
    for await (const chunk of chunks) {
      seen += chunk.length
      yield chunk
    }
  } catch (cause) {
    signal?.throwIfAborted()
    throw cause instanceof LostConnection
      ? brokenOffError('supervisor_unreachable', seen, bytes, cause)
      : cause
  }
  if (seen !== bytes) throw brokenOffError('conflict', seen, bytes)
}

function brokenOffError(
  code: 'supervisor_unreachable' | 'conflict',
  seen: number,
  bytes: number,
  cause?: Error,
): CraikError {
  return new CraikError(code, `the snapshot ended at byte ${seen} of ${bytes}`, {
    hint: 'try again (nothing was written)',
    cause,
  })
}
