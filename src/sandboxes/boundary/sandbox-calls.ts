/** Ports, processes and figures of a sandbox, as the host asks for them. */
import { jobsSchema, metricsSchema, processesSchema } from './answers.ts'
import { abortedError, askForStream, requestJson, tell } from './ask.ts'
import type { BoundaryInside } from './boundary.ts'
import type { Line } from './connection.ts'
import type { BoundaryCounter } from './counts.ts'
import { JoinedStream } from './joined-stream.ts'
import { MAX_LIST_BYTES } from './timeouts.ts'

export function boundaryInside(line: Line, counter: BoundaryCounter): BoundaryInside {
  return {
    async connect(port, until) {
      counter.add('forwards')
      const doing = `connect to port ${port}`
      const question = { method: 'POST', path: `/ports/${port}`, doing } as const
      const { stream } = await askForStream(line, question, until, { duplex: true })
      const joined = new JoinedStream(stream, line, doing)
      const left = () => joined.destroy(abortedError(until, doing))
      until.addEventListener('abort', left, { once: true })
      joined.once('close', () => until.removeEventListener('abort', left))
      return joined
    },
    async processes(until) {
      counter.add('looks')
      const question = { method: 'GET', path: '/processes', doing: 'list processes' } as const
      return (await requestJson(line, question, processesSchema, until, { maxBytes: MAX_LIST_BYTES }))
        .processes
    },
    signal(pid, signal, until) {
      counter.add('signals')
      const question = {
        method: 'POST',
        path: `/processes/${pid}/signal`,
        doing: 'signal a process',
      } as const
      return tell(line, question, until, { body: { signal } })
    },
    putLogins(files, until) {
      counter.add('writes')
      const question = { method: 'PUT', path: '/logins', doing: 'write the logins' } as const
      return tell(line, question, until, { body: { files } })
    },
    metrics(until) {
      counter.add('looks')
      const question = { method: 'GET', path: '/metrics', doing: 'read metrics' } as const
      return requestJson(line, question, metricsSchema, until)
    },
    async jobs(until) {
      counter.add('looks')
      const question = { method: 'GET', path: '/jobs', doing: 'list jobs' } as const
      return (await requestJson(line, question, jobsSchema, until)).jobs
    },
  }
}
