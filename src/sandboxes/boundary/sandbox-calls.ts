/** The host's requests for ports, processes and metrics of a sandbox. */

import type { SandboxInspection } from './boundary.ts'
import type { BoundaryCounter } from './boundary-counter.ts'
import { MAX_LIST_BYTES } from './boundary-timeouts.ts'
import type { BoundaryConnection } from './connection.ts'
import { JoinedStream } from './joined-stream.ts'
import { abortError, requestJson, requestStream, sendRequest } from './sidecar-request.ts'
import { jobsSchema, metricsSchema, processesSchema } from './sidecar-responses.ts'

export function boundaryInspection(
  connection: BoundaryConnection,
  counter: BoundaryCounter,
): SandboxInspection {
  return {
    async connect(port, until) {
      counter.add('forwards')
      const doing = `connect to port ${port}`
      const question = { method: 'POST', path: `/ports/${port}`, doing } as const
      const { stream } = await requestStream(connection, question, until, { duplex: true })
      const joined = new JoinedStream(stream, connection, doing)
      const onAbort = () => joined.destroy(abortError(until, doing))
      until.addEventListener('abort', onAbort, { once: true })
      joined.once('close', () => until.removeEventListener('abort', onAbort))
      return joined
    },
    async processes(until) {
      counter.add('looks')
      const question = { method: 'GET', path: '/processes', doing: 'list processes' } as const
      return (await requestJson(connection, question, processesSchema, until, { maxBytes: MAX_LIST_BYTES }))
        .processes
    },
    signal(pid, signal, until) {
      counter.add('signals')
      const question = {
        method: 'POST',
        path: `/processes/${pid}/signal`,
        doing: 'signal a process',
      } as const
      return sendRequest(connection, question, until, { body: { signal } })
    },
    putLogins(files, until) {
      counter.add('writes')
      const question = { method: 'PUT', path: '/logins', doing: 'write the logins' } as const
      return sendRequest(connection, question, until, { body: { files } })
    },
    metrics(until) {
      counter.add('looks')
      const question = { method: 'GET', path: '/metrics', doing: 'read metrics' } as const
      return requestJson(connection, question, metricsSchema, until)
    },
    async jobs(until) {
      counter.add('looks')
      const question = { method: 'GET', path: '/jobs', doing: 'list jobs' } as const
      return (await requestJson(connection, question, jobsSchema, until)).jobs
    },
  }
}
