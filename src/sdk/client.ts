/** The typed client of the operator API. It depends on the API's definition, and on nothing behind it. */
import type { Duplex } from 'node:stream'
import type {
  CapacityBody,
  ExecBody,
  FileBody,
  FileListBody,
  JobBody,
  ListedSandboxBody,
  ProcessBody,
  SandboxBody,
  SandboxEventBody,
  StatsBody,
  SupervisorBody,
  UploadBody,
  VersionBody,
  VolumeBody,
  WatchBody,
} from '../operator/api/bodies.ts'
import type { CreateBody, ExecRequestBody, KeysBody, StopBody } from '../operator/api/requests.ts'
import { ApiConnection, type ConnectionOptions } from './api-connection.ts'
import { type CallOptions, common, jobPath, query, sandboxPath } from './api-paths.ts'
import { followChanges, followEvents } from './follow.ts'
import { RetryDeadlines } from './retry-deadlines.ts'
import { type SnapshotCalls, snapshotCalls } from './snapshots.ts'
import { jsonOf } from './transport.ts'

export interface ApiClient extends Disposable {
  readonly supervisor: SupervisorCalls
  readonly accounts: AccountCalls
  readonly sandboxes: SandboxCalls
  readonly jobs: JobCalls
  readonly files: FileCalls
  readonly snapshots: SnapshotCalls
  readonly volumes: VolumeCalls
  /** For operations that resume by themselves: `runJob`, `readFile`, `writeFile`. */
  readonly link: ApiConnection
  close(): void
}

interface SupervisorCalls {
  version(options?: CallOptions): Promise<VersionBody>
  status(options?: CallOptions): Promise<SupervisorBody>
  /** Asks the supervisor to exit. The sandboxes continue. */
  drain(options?: CallOptions): Promise<{ readonly draining: true; readonly pid: number }>
}

interface AccountCalls {
  /**
   * Makes these API keys of the caller's environment available as logins of the host. They replace those offered
   * before.
   */
  offer(keys: KeysBody['keys'], options?: CallOptions): Promise<void>
}

/** Every `sandbox` is an id or a name. */
interface SandboxCalls {
  create(body: CreateBody, options?: CallOptions): Promise<SandboxBody>
  list(options?: CallOptions): Promise<readonly ListedSandboxBody[]>
  /** Returns what all sandboxes together can have, and how much of it is in use. */
  capacity(options?: CallOptions): Promise<readonly CapacityBody[]>
  get(sandbox: string, options?: CallOptions): Promise<SandboxBody>
  /** Stops everything in the sandbox. Its disk stays. */
  stop(sandbox: string, body?: StopBody, options?: CallOptions): Promise<SandboxBody>
  /** Starts the sandbox again on its disk, or continues a paused one. */
  resume(sandbox: string, options?: CallOptions): Promise<SandboxBody>
  /** Freezes everything in the sandbox until it is resumed. */
  pause(sandbox: string, options?: CallOptions): Promise<SandboxBody>
  delete(sandbox: string, options?: CallOptions): Promise<void>
  /** Runs a command to its end and returns its output as a whole. */
  exec(sandbox: string, body: ExecRequestBody, options?: CallOptions): Promise<ExecBody>
  events(
    sandbox: string,
    options?: CallOptions & { readonly follow?: boolean },
  ): AsyncGenerator<SandboxEventBody>
  stats(sandbox: string, options?: CallOptions): Promise<StatsBody>
  processes(sandbox: string, options?: CallOptions): Promise<readonly ProcessBody[]>
  signalProcess(sandbox: string, pid: number, signal: string, options?: CallOptions): Promise<void>
  /**
   * Writes the host's current logins into the sandbox, as far as it may have them. Returns their names in the sandbox.
   */
  putLogins(sandbox: string, options?: CallOptions): Promise<readonly string[]>
  /** Rejects when `connectPort` would be denied now. */
  checkPort(sandbox: string, port: number, options?: CallOptions): Promise<void>
  /** Opens a stream to a port on the loopback interface of the sandbox. */
  connectPort(sandbox: string, port: number, options?: CallOptions): Promise<Duplex>
}

/** `runJob` starts jobs, reads their output and sends their input. */
interface JobCalls {
  list(sandbox: string, options?: CallOptions): Promise<readonly JobBody[]>
  get(sandbox: string, job: string, options?: CallOptions): Promise<JobBody>
  signal(sandbox: string, job: string, signal: string, options?: CallOptions): Promise<void>
  resize(sandbox: string, job: string, cols: number, rows: number, options?: CallOptions): Promise<void>
  /** Stops the job if it runs, and deletes its output. */
  cancel(sandbox: string, job: string, options?: CallOptions): Promise<void>
}

/** `readFile` and `writeFile` transfer the contents. */
interface FileCalls {
  stat(sandbox: string, path: string, options?: CallOptions): Promise<FileBody>
  list(
    sandbox: string,
    path: string,
    options?: CallOptions & { readonly after?: string; readonly limit?: number },
  ): Promise<FileListBody>
  watch(
    sandbox: string,
    path: string,
    options?: CallOptions & { readonly recursive?: boolean; readonly after?: number },
  ): AsyncGenerator<WatchBody>
  getUpload(sandbox: string, upload: string, options?: CallOptions): Promise<UploadBody>
  move(sandbox: string, from: string, to: string, options?: CallOptions): Promise<void>
  remove(
    sandbox: string,
    path: string,
    options?: CallOptions & { readonly recursive?: boolean },
  ): Promise<void>
  mkdir(sandbox: string, path: string, options?: CallOptions & { readonly parents?: boolean }): Promise<void>
}

interface VolumeCalls {
  list(options?: CallOptions): Promise<readonly VolumeBody[]>
  /** Deletes a volume permanently. Refused while a sandbox uses it. */
  delete(volume: string, options?: CallOptions): Promise<void>
}

export function createClient(options: ConnectionOptions): ApiClient {
  const connection = new ApiConnection(options)
  const close = () => connection.close()
  return {
    supervisor: supervisorCalls(connection),
    accounts: {
      offer: (keys, options) =>
        connection.sendAndDiscard({
          method: 'PUT',
          path: '/api/accounts/environment',
          json: { keys },
          idempotent: true,
          ...common(options),
        }),
    },
    sandboxes: sandboxCalls(connection),
    jobs: jobCalls(connection),
    files: fileCalls(connection),
    snapshots: snapshotCalls(connection),
    volumes: volumeCalls(connection),
    link: connection,
    close,
    [Symbol.dispose]: close,
  }
}

function volumeCalls(connection: ApiConnection): VolumeCalls {
  return {
    list: async (options) =>
      (
        await connection.json<{ volumes: VolumeBody[] }>({
          method: 'GET',
          path: '/api/volumes',
          ...common(options),
        })
      ).volumes,
    delete: (volume, options) =>
      connection.sendAndDiscard({
        method: 'DELETE',
        path: `/api/volumes/${encodeURIComponent(volume)}`,
        ...common(options),
      }),
  }
}

function supervisorCalls(connection: ApiConnection): SupervisorCalls {
  return {
    version: (options) => connection.json({ method: 'GET', path: '/api/version', ...common(options) }),
    status: (options) => connection.json({ method: 'GET', path: '/api/supervisor', ...common(options) }),
    drain: (options) =>
      connection.json({ method: 'POST', path: '/api/supervisor/drain', ...common(options) }),
  }
}

function sandboxCalls(connection: ApiConnection): SandboxCalls {
  const get = <T>(path: string, options?: CallOptions) =>
    connection.json<T>({ method: 'GET', path, ...common(options) })
  /** Returns a request that has the same effect when it is repeated. So it is sent again when there is no response. */
  const post = (sandbox: string, verb: string) =>
    ({ method: 'POST', path: sandboxPath(sandbox, verb), idempotent: true }) as const
  return {
    create: (json, options) =>
      connection.json({ method: 'POST', path: '/api/sandboxes', json, ...common(options) }),
    list: async (options) =>
      (await get<{ sandboxes: ListedSandboxBody[] }>('/api/sandboxes', options)).sandboxes,
    capacity: async (options) => (await get<{ limits: CapacityBody[] }>('/api/limits', options)).limits,
    get: (sandbox, options) => get(sandboxPath(sandbox), options),
    stop: (sandbox, json = {}, options) =>
      connection.json({ ...post(sandbox, '/stop'), json, ...common(options) }),
    resume: (sandbox, options) => connection.json({ ...post(sandbox, '/resume'), ...common(options) }),
    pause: (sandbox, options) => connection.json({ ...post(sandbox, '/pause'), ...common(options) }),
    delete: (sandbox, options) =>
      connection.sendAndDiscard({ method: 'DELETE', path: sandboxPath(sandbox), ...common(options) }),
    exec: (sandbox, json, options) => execWhole(connection, sandbox, json, options),
    events: (sandbox, { follow = false, ...options } = {}) =>
      followEvents(connection, sandboxPath(sandbox, `/events${query({ follow })}`), options),
    stats: (sandbox, options) => get(sandboxPath(sandbox, '/stats'), options),
    processes: async (sandbox, options) =>
      (await get<{ processes: ProcessBody[] }>(sandboxPath(sandbox, '/processes'), options)).processes,
    signalProcess: (sandbox, pid, signal, options) =>
      connection.sendAndDiscard({
        method: 'POST',
        path: sandboxPath(sandbox, `/processes/${pid}/signal`),
        json: { signal },
        ...common(options),
      }),
    putLogins: async (sandbox, options) =>
      (await connection.json<{ logins: string[] }>({ ...post(sandbox, '/logins'), ...common(options) }))
        .logins,
    checkPort: (sandbox, port, options) =>
      connection.sendAndDiscard({
        method: 'GET',
        path: sandboxPath(sandbox, `/ports/${port}/check`),
        ...common(options),
      }),
    connectPort: (sandbox, port, options) =>
      connection.upgrade(
        sandboxPath(sandbox, `/ports/${port}`),
        common(options).headers ?? {},
        options?.signal,
      ),
  }
}

/** With an id from the client, a retry finds the job of the first attempt, whatever happened in between. */
function execWhole(
  connection: ApiConnection,
  sandbox: string,
  json: ExecRequestBody,
  options: CallOptions | undefined,
): Promise<ExecBody> {
  const path = sandboxPath(sandbox, '/exec')
  const requested = { method: 'POST', path, json, ...common(options) } as const
  if (json.job_id === undefined) return connection.json(requested)
  const deadlines = new RetryDeadlines()
  return connection.persist(requested.signal, async (transport) => {
    try {
      return await jsonOf<ExecBody>(await transport.send(requested))
    } catch (error) {
      throw deadlines.checkError(error)
    }
  })
}

function jobCalls(connection: ApiConnection): JobCalls {
  return {
    list: async (sandbox, options) => {
      const path = sandboxPath(sandbox, '/jobs')
      return (await connection.json<{ jobs: JobBody[] }>({ method: 'GET', path, ...common(options) })).jobs
    },
    get: (sandbox, job, options) =>
      connection.json({ method: 'GET', path: jobPath(sandbox, job), ...common(options) }),
    signal: (sandbox, job, signal, options) =>
      connection.sendAndDiscard({
        method: 'POST',
        path: jobPath(sandbox, job, '/signal'),
        json: { signal },
        ...common(options),
      }),
    resize: (sandbox, job, cols, rows, options) =>
      connection.sendAndDiscard({
        method: 'POST',
        path: jobPath(sandbox, job, '/resize'),
        json: { cols, rows },
        idempotent: true,
        ...common(options),
      }),
    cancel: (sandbox, job, options) =>
      connection.sendAndDiscard({
        method: 'DELETE',
        path: jobPath(sandbox, job),
        idempotent: true,
        ...common(options),
      }),
  }
}

function fileCalls(connection: ApiConnection): FileCalls {
  const get = <T>(path: string, options?: CallOptions) =>
    connection.json<T>({ method: 'GET', path, ...common(options) })
  const change = (sandbox: string, verb: string, json: unknown, options?: CallOptions) =>
    connection.sendAndDiscard({
      method: 'POST',
      path: sandboxPath(sandbox, `/files/${verb}`),
      json,
      ...common(options),
    })
  return {
    stat: (sandbox, path, options) => get(sandboxPath(sandbox, `/files/stat${query({ path })}`), options),
    list: (sandbox, path, { after, limit, ...options } = {}) =>
      get(sandboxPath(sandbox, `/files/list${query({ path, after, limit })}`), options),
    watch: (sandbox, path, { recursive, after = 0, ...options } = {}) =>
      followChanges(
        connection,
        (seq) => sandboxPath(sandbox, `/files/watch${query({ path, recursive, after: seq })}`),
        after,
        options,
      ),
    getUpload: (sandbox, upload, options) =>
      get(sandboxPath(sandbox, `/files/upload${query({ upload })}`), options),
    move: (sandbox, from, to, options) => change(sandbox, 'move', { from, to }, options),
    remove: (sandbox, path, { recursive = false, ...options } = {}) =>
      change(sandbox, 'remove', { path, recursive }, options),
    mkdir: (sandbox, path, { parents = false, ...options } = {}) =>
      change(sandbox, 'mkdir', { path, parents }, options),
  }
}
