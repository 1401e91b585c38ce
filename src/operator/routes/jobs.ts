/**
 * The routes for jobs. A client starts a job under its own id, reads its output from any position and sends its input
 * from any offset.
 */
import type { JobId } from '../../lib/ids.ts'
import { FRAMES_TYPE, HEADER } from '../api/api-constants.ts'
import {
  ackBody,
  inputQuery,
  jobBody,
  jobParams,
  outputQuery,
  resizeBody,
  sandboxParams,
  signalBody,
} from '../api/requests.ts'
import { snakeCase } from '../api/snake-case.ts'
import { type Api, type RouteContext, resolveSandboxId } from '../context.ts'
import { toJobRequest } from '../job-request.ts'
import { requireBytes, sendStream } from '../stream-responses.ts'

const JOB = '/api/sandboxes/:id/jobs/:job'

export function addJobRoutes(app: Api, { manager, caller }: RouteContext): void {
  app.put(JOB, { schema: { params: jobParams, body: jobBody } }, async (request, reply) => {
    const sandboxes = await manager()
    const { id, job } = await resolveJob(request.params)
    const started = await sandboxes.jobs.start(
      await caller(request, reply),
      id,
      job,
      toJobRequest(request.body),
    )
    const headers = {
      'content-type': FRAMES_TYPE,
      [HEADER.receipt]: started.receiptId,
      [HEADER.created]: started.created ? '1' : '0',
    }
    await sendStream(reply, started.created ? 201 : 200, headers, started.output)
  })
  app.get('/api/sandboxes/:id/jobs', { schema: { params: sandboxParams } }, async (request, reply) => {
    const sandboxes = await manager()
    const id = await resolveSandboxId(sandboxes, request.params.id)
    const jobs = await sandboxes.jobs.list(await caller(request, reply), id)
    return { jobs: jobs.map((job) => snakeCase(job)) }
  })
  app.get(JOB, { schema: { params: jobParams } }, async (request, reply) => {
    const { id, job } = await resolveJob(request.params)
    return snakeCase(await (await manager()).jobs.status(await caller(request, reply), id, job))
  })
  app.get(
    `${JOB}/output`,
    { schema: { params: jobParams, querystring: outputQuery } },
    async (request, reply) => {
      const { id, job } = await resolveJob(request.params)
      const managerCaller = await caller(request, reply)
      const output = await (await manager()).jobs.output(managerCaller, id, job, request.query.after)
      await sendStream(reply, 200, { 'content-type': FRAMES_TYPE }, output)
    },
  )
  app.post(
    `${JOB}/input`,
    { schema: { params: jobParams, querystring: inputQuery }, onRequest: requireBytes },
    async (request, reply) => {
      const { id, job } = await resolveJob(request.params)
      const part = { ...request.query, body: request.raw }
      return (await manager()).jobs.input(await caller(request, reply), id, job, part)
    },
  )
  app.post(`${JOB}/ack`, { schema: { params: jobParams, body: ackBody } }, async (request, reply) => {
    const { id, job } = await resolveJob(request.params)
    await (await manager()).jobs.acknowledge(await caller(request, reply), id, job, request.body.position)
    return {}
  })
  app.post(`${JOB}/signal`, { schema: { params: jobParams, body: signalBody } }, async (request, reply) => {
    const { id, job } = await resolveJob(request.params)
    await (await manager()).jobs.control(await caller(request, reply), id, job, request.body)
    return {}
  })
  app.post(`${JOB}/resize`, { schema: { params: jobParams, body: resizeBody } }, async (request, reply) => {
    const { id, job } = await resolveJob(request.params)
    await (await manager()).jobs.control(await caller(request, reply), id, job, request.body)
    return {}
  })
  app.delete(JOB, { schema: { params: jobParams } }, async (request, reply) => {
    const { id, job } = await resolveJob(request.params)
    await (await manager()).jobs.cancel(await caller(request, reply), id, job)
    return { job, forgotten: true }
  })

  async function resolveJob(params: { readonly id: string; readonly job: string }) {
    return { id: await resolveSandboxId(await manager(), params.id), job: params.job as JobId }
  }
}
