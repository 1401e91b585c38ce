/** The requests that start, follow, feed and end jobs. */
import {
  isBrokenOff,
  queryFlag,
  queryNumber,
  type RouteCall,
  SidecarError,
  type SidecarRoute,
} from '../router.ts'
import { feedFrom } from './feed.ts'
import type { Job } from './job.ts'
import type { JobRegistry } from './job-registry.ts'
import { sendLog } from './send-log.ts'
import { parseJobId, parseJobSpec, parseResize, parseSignal, parseTurn } from './spec.ts'

const FRAMES = { 'content-type': 'application/vnd.craik.frames' }

export function jobRoutes(jobs: JobRegistry): SidecarRoute[] {
  const jobOf = (call: RouteCall): Job => jobs.get(parseJobId(call.params.id!))
  return [
    { method: 'PUT', path: '/jobs/:id', handle: (call) => start(jobs, call) },
    { method: 'GET', path: '/jobs', handle: (call) => call.answer(200, { jobs: jobs.list() }) },
    { method: 'GET', path: '/jobs/:id', handle: (call) => call.answer(200, jobOf(call).status()) },
    { method: 'GET', path: '/jobs/:id/output', handle: (call) => output(jobOf(call), call) },
    { method: 'POST', path: '/jobs/:id/input', handle: (call) => input(jobOf(call), call) },
    {
      method: 'POST',
      path: '/jobs/:id/ack',
      handle(call) {
        const { log } = jobOf(call)
        log.acknowledge(queryNumber(call.query, 'position', 0, log.position))
        call.answer(200, {})
      },
    },
    {
      method: 'POST',
      path: '/jobs/:id/signal',
      async handle(call) {
        const { signal } = parseSignal(await call.json())
        jobOf(call).signal(signal as NodeJS.Signals)
        call.answer(200, {})
      },
    },
    {
      method: 'POST',
      path: '/jobs/:id/resize',
      async handle(call) {
        const { cols, rows } = parseResize(await call.json())
        jobOf(call).resize(cols, rows)
        call.answer(200, {})
      },
    },
    {
      method: 'DELETE',
      path: '/jobs/:id',
      async handle(call) {
        await jobs.remove(parseJobId(call.params.id!))
        call.answer(200, {})
      },
    },
  ]
}

async function start(jobs: JobRegistry, call: RouteCall): Promise<void> {
  const id = parseJobId(call.params.id!)
  const attach = queryFlag(call.query, 'attach', false)
  const ageMs = queryNumber(call.query, 'age', 0, Number.MAX_SAFE_INTEGER)
  const spec = parseJobSpec(await call.json())
  const { job, created } = await jobs.start(id, spec, ageMs)
  const status = created ? 201 : 200
  if (!attach) call.answer(status, job.status())
  else if (call.respond(status, FRAMES)) await follow(job, call, 0)
}

async function output(job: Job, call: RouteCall): Promise<void> {
  const after = queryNumber(call.query, 'after', 0, job.log.position)
  // Reads once before the response begins, so that a wrong position gets an error and not a broken stream.
  try {
    await job.log.read(after)
  } catch (error) {
    throw error instanceof RangeError ? new SidecarError('usage', `after=${after}: ${error.message}`) : error
  }
  if (call.respond(200, FRAMES)) await follow(job, call, after)
}

async function follow(job: Job, call: RouteCall, after: number): Promise<void> {
  call.stream.resume()
  await sendLog(job.log, call.stream, after, () => job.inputOffset)
}

async function input(job: Job, call: RouteCall): Promise<void> {
  if (!job.takesInput) throw new SidecarError('conflict', `${job.id} takes no input`)
  const offset = queryNumber(call.query, 'offset', 0, Number.MAX_SAFE_INTEGER)
  const end = queryFlag(call.query, 'end', false)
  const turn = parseTurn(call.query)
  await job.started
  const reached = await feedFrom(call.stream, job, offset, turn)
  // The bytes of a body that broke off count, but it has not said where the input ends.
  if (isBrokenOff(call.stream)) return
  if (end) job.endInput(reached)
  call.answer(200, { offset: job.inputOffset })
}
