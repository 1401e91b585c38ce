/** Commands, terminals and archives inside a sandbox, as the host asks for them. */
import { CraikError } from '../../errors.ts'
import type { JobId } from '../../lib/ids.ts'
import type { JobResult } from '../../sidecar/protocol.ts'
import { BodyStream } from './body-stream.ts'
import type { BoundaryJobs, JobOutput } from './boundary.ts'
import type { BoundaryCounter } from './boundary-counter.ts'
import type { BoundaryConnection } from './connection.ts'
import { FrameWatch } from './frame-watch.ts'
import { send } from './send.ts'
import { type Answered, askForStream, requestJson, sendRequest } from './sidecar-request.ts'
import { inputSchema, jobStatusSchema, jobsSchema, lied } from './sidecar-responses.ts'

export function boundaryJobs(connection: BoundaryConnection, counter: BoundaryCounter): BoundaryJobs {
  return {
    async start(id, spec, until, ageMs) {
      counter.addOnce('jobs', id)
      const doing = 'start a job'
      const query = { attach: 1, age: ageMs }
      const question = { method: 'PUT', path: pathOf(id), query, doing } as const
      const answered = await askForStream(connection, question, until, { body: spec })
      return { created: answered.status === 201, output: outputOf(connection, answered, 0, doing, until) }
    },
    async status(id, until) {
      const question = { method: 'GET', path: pathOf(id), doing: 'get the state of a job' } as const
      try {
        const status = await requestJson(connection, question, jobStatusSchema, until)
        if (status.id !== id) throw lied(question.doing, 'the state of a different job')
        return status
      } catch (error) {
        if (isNotFound(error)) return undefined
        throw error
      }
    },
    async list(until) {
      const question = { method: 'GET', path: '/jobs', doing: 'list jobs' } as const
      return (await requestJson(connection, question, jobsSchema, until)).jobs
    },
    async output(id, after, until) {
      const doing = 'read the output of a job'
      const question = { method: 'GET', path: `${pathOf(id)}/output`, query: { after }, doing } as const
      return outputOf(connection, await askForStream(connection, question, until), after, doing, until)
    },
    async input(id, offset, body, end, until, turn) {
      const doing = 'send input to a job'
      const whose = turn && { turn: turn.id, take: turn.take ? 1 : 0 }
      const query = { offset, end: end ? 1 : 0, ...whose }
      const question = { method: 'POST', path: `${pathOf(id)}/input`, query, doing } as const
      const answer = await send(connection, question, inputSchema, body, until)
      // It may have had more before, from an earlier connection; never less than what it was just told begins there.
      if (answer.offset < offset) throw lied(doing, 'an invalid offset')
      return answer
    },
    acknowledge(id, position, until) {
      const query = { position }
      const path = `${pathOf(id)}/ack`
      return sendRequest(
        connection,
        { method: 'POST', path, query, doing: 'acknowledge the output of a job' },
        until,
      )
    },
    control(id, what, until) {
      const verb = 'signal' in what ? 'signal' : 'resize'
      const path = `${pathOf(id)}/${verb}`
      return sendRequest(connection, { method: 'POST', path, doing: `${verb} a job` }, until, { body: what })
    },
    async forget(id, until) {
      try {
        await sendRequest(connection, { method: 'DELETE', path: pathOf(id), doing: 'stop a job' }, until)
      } catch (error) {
        if (!isNotFound(error)) throw error
      }
    },
  }
}

/** The sandbox will not run it: it ran, or may have, and is forgotten. */
export function isJobGone(error: unknown): boolean {
  return error instanceof CraikError && error.details?.inside === 'gone'
}

export function isNotFound(error: unknown): boolean {
  return error instanceof CraikError && error.code === 'not_found'
}

function pathOf(id: JobId): string {
  return `/jobs/${encodeURIComponent(id)}`
}

function outputOf(
  connection: BoundaryConnection,
  answered: Answered,
  after: number,
  doing: string,
  until: AbortSignal,
): JobOutput {
  const watch = new FrameWatch(after, doing)
  const { silenceMs } = connection.timeouts
  return new WatchedOutput(watch, answered, connection, doing, until, silenceMs)
}

class WatchedOutput extends BodyStream implements JobOutput {
  readonly #watch: FrameWatch

  constructor(
    watch: FrameWatch,
    answered: Answered,
    connection: BoundaryConnection,
    doing: string,
    until: AbortSignal,
    silenceMs: number,
  ) {
    super(answered.stream, { line: connection, doing, check: watch, until, silenceMs })
    this.#watch = watch
  }

  get position(): number {
    return this.#watch.position
  }

  get result(): JobResult | undefined {
    return this.#watch.result
  }
}
