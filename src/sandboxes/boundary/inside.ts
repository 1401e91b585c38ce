/** Ports, processes and figures of a sandbox, as the host asks for them. */
import { jobsSchema, metricsSchema, processesSchema } from './answers.ts'
import { ask, askForStream, givenUp, tell } from './ask.ts'
import type { BoundaryInside } from './boundary.ts'
import type { BoundaryCounter } from './counts.ts'
import { JoinedStream } from './joined-stream.ts'
import type { Line } from './line.ts'
import { MAX_LIST_BYTES } from './patience.ts'

export function boundaryInside(line: Line, counter: BoundaryCounter): BoundaryInside {
  return {
    async connect(port, until) {
      counter.add('forwards')
      const doing = `connect to port ${port}`
      const question = { method: 'POST', path: `/ports/${port}`, doing } as const
      const { stream } = await askForStream(line, question, until, { duplex: true })
      const joined = new JoinedStream(stream, line, doing)
      const left = () => joined.destroy(givenUp(until, doing))
      until.addEventListener('abort', left, { once: true })
      joined.once('close', () => until.removeEventListener('abort', left))
      return joined
    },
    async processes(until) {
      counter.add('looks')
      const question = { method: 'GET', path: '/processes', doing: 'list its processes' } as const
      return (await ask(line, question, processesSchema, until, { maxBytes: MAX_LIST_BYTES })).processes
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
      const question = { method: 'PUT', path: '/logins', doing: 'put logins in their places' } as const
      return tell(line, question, until, { body: { files } })
    },
    metrics(until) {
      counter.add('looks')
      const question = { method: 'GET', path: '/metrics', doing: 'tell its figures' } as const
      return ask(line, question, metricsSchema, until)
    },
    async jobs(until) {
      counter.add('looks')
      const question = { method: 'GET', path: '/jobs', doing: 'list its jobs' } as const
      return (await ask(line, question, jobsSchema, until)).jobs
    },
  }
}
