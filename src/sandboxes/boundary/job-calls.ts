/** The host's requests for commands, terminals and archives in a sandbox. */
import { CraikError } from '../../errors.ts'
import type { JobId } from '../../lib/ids.ts'
import type { JobResult } from '../../sidecar/protocol.ts'
import { BodyStream } from './body-stream.ts'
import type { BoundaryJobs, JobOutput } from './boundary.ts'
import type { BoundaryCounter } from './boundary-counter.ts'
import type { BoundaryConnection } from './connection.ts'
import { FrameWatch } from './frame-watch.ts'
import { sendToSidecar } from './send.ts'
import { type ResponseStart, requestJson, requestStream, sendRequest } from './sidecar-request.ts'
import { inputSchema, invalidResponse, jobStatusSchema, jobsSchema } from './sidecar-responses.ts'

export function boundaryJobs(connection: BoundaryConnection, counter: BoundaryCounter): BoundaryJobs {
  return {
    async start(id, spec, until, ageMs) {
      counter.addOnce('jobs', id)
      const doing = 'start a job'
      const query = { attach: 1, age: ageMs }
      const question = { method: 'PUT', path: pathOf(id), query, doing } as const
      const answered = await requestStream(connection, question, until, { body: spec })
      return { created: answered.status === 201, output: outputOf(connection, answered, 0, doing, until) }
    },
    async status(id, until) {
      const question = { method: 'GET', path: pathOf(id), doing: 'get the state of a job' } as const
      try {
        const status = await requestJson(connection, question, jobStatusSchema, until)
        if (status.id !== id) throw invalidResponse(question.doing, 'the state of a different job')
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
      return outputOf(connection, await requestStream(connection, question, until), after, doing, until)
    },
    async input(id, offset, body, end, until, turn) {
      const doing = 'send input to a job'
      const whose = turn && { turn: turn.id, take: turn.take ? 1 : 0 }
      const query = { offset, end: end ? 1 : 0, ...whose }
      const question = { method: 'POST', path: `${pathOf(id)}/input`, query, doing } as const
      const answer = await sendToSidecar(connection, question, inputSchema, body, until)
      // The sandbox may have received more through an earlier connection, but never less than the start of this body.
      if (answer.offset < offset) throw invalidResponse(doing, 'an invalid offset')
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

/** Returns whether the sandbox refuses to run the job because it ran, or may have run, and was forgotten. */
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
  answered: ResponseStart,
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
    answered: ResponseStart,
    connection: BoundaryConnection,
    doing: string,
    until: AbortSignal,
    silenceMs: number,
  ) {
    super(answered.stream, { connection: connection, doing, check: watch, until, silenceMs })
    this.#watch = watch
  }

  get position(): number {
    return this.#watch.position
  }

  get result(): JobResult | undefined {
    return this.#watch.result
  }
}
