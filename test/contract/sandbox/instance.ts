/**
 * The parameters of each part of the sandbox contract: a home, a live sandbox in it, and functions to run jobs there.
 */
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { FRAME, FRAME_HEADER_BYTES, type Frame, FrameReader, isInLog } from '../../../src/lib/frames.ts'
import { newId } from '../../../src/lib/ids.ts'
import type { JobRequestBody } from '../../../src/operator/api/requests.ts'
import { jobPath, query } from '../../../src/sdk/api-paths.ts'
import type { ApiClient } from '../../../src/sdk/client.ts'
import { type JobEnd, runJob } from '../../../src/sdk/run-job.ts'
import { responseChunks } from '../../../src/sdk/transport.ts'
import type { LiveSandbox, SandboxHome } from '../../sandbox-home.ts'

export interface ContractInstance {
  readonly home: SandboxHome
  readonly client: ApiClient
  /** Shared by all parts that need no special sandbox. */
  readonly box: LiveSandbox
}

export type GetInstance = () => ContractInstance

/** A program that exists in every sandbox. */
export const NODE_INSIDE = '/opt/craik/node'

export const newJobId = (): string => newId('job', Date.now())

export const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

export interface RunOptions {
  readonly jobId?: string
  readonly stdin?: Buffer
  /** The sandbox to use (default: the shared one). */
  readonly sandbox?: LiveSandbox
}

export interface Ran extends JobEnd {
  readonly stdout: Buffer
  readonly stderr: Buffer
}

/** Runs a job to its end and collects its output. */
export async function runWhole(
  instance: ContractInstance,
  spec: JobRequestBody,
  options: RunOptions = {},
): Promise<Ran> {
  const stdout: Buffer[] = []
  const stderr: Buffer[] = []
  const { stdin, sandbox = instance.box } = options
  const end = await runJob(instance.client, sandbox.id, spec, {
    jobId: options.jobId ?? newJobId(),
    ...(stdin && { stdin: Readable.from(stdin.length === 0 ? [] : [stdin], { objectMode: false }) }),
    onStdout: (chunk) => void stdout.push(Buffer.from(chunk)),
    onStderr: (chunk) => void stderr.push(Buffer.from(chunk)),
  })
  return { ...end, stdout: Buffer.concat(stdout), stderr: Buffer.concat(stderr) }
}

/** Starts a job and detaches from it. */
export async function startDetached(
  instance: ContractInstance,
  spec: JobRequestBody,
  jobId: string,
): Promise<void> {
  const controller = new AbortController()
  const started = Promise.withResolvers<void>()
  const following = runJob(instance.client, instance.box.id, spec, {
    jobId,
    signal: controller.signal,
    onStarted: () => started.resolve(),
  })
  await Promise.race([started.promise, following])
  controller.abort()
  await following.catch(() => {})
}

export async function waitForJobEnd(instance: ContractInstance, jobId: string): Promise<void> {
  await waitUntil(async () => (await instance.client.jobs.get(instance.box.id, jobId)).state === 'ended')
}

export interface OutputPart {
  /** The frames of the log, each with the position after it. */
  readonly frames: readonly (Frame & { readonly after: number })[]
  readonly gaps: readonly { readonly from: number; readonly to: number }[]
  readonly position: number
  readonly ended: boolean
}

/** Reads the output of a job from a position, and stops after this many frames. */
export async function readOutput(
  { client, box }: ContractInstance,
  jobId: string,
  after: number,
  maxFrames = Number.POSITIVE_INFINITY,
): Promise<OutputPart> {
  const path = jobPath(box.id, jobId, `/output${query({ after })}`)
  const response = await client.link.send({ method: 'GET', path })
  const frames: (Frame & { after: number })[] = []
  const gaps: { from: number; to: number }[] = []
  const reader = new FrameReader()
  let position = after
  let ended = false
  for await (const chunk of responseChunks(response)) {
    for (const { type, payload } of reader.push(chunk)) {
      if (type === FRAME.gap) {
        const gap = JSON.parse(payload.toString()) as { from: number; to: number }
        gaps.push(gap)
        position = gap.to
      }
      if (!isInLog(type) || frames.length === maxFrames) continue
      position += FRAME_HEADER_BYTES + payload.length
      frames.push({ type, payload: Buffer.from(payload), after: position })
      ended ||= type === FRAME.exit
    }
    if (frames.length === maxFrames) break
  }
  return { frames, gaps, position, ended }
}

/** Shorter than a test's timeout, so that the error names the condition. */
const TIMEOUT_MS = 150_000
const POLL_MS = 50

/** Waits for a condition. */
export async function waitUntil(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  const endsMs = performance.now() + TIMEOUT_MS
  while (!(await isTrue())) {
    if (performance.now() > endsMs) throw new Error(`it did not happen: ${isTrue}`)
    await sleep(POLL_MS)
  }
}

/** Checks that the sandbox still runs commands. */
export async function expectRunsCommands(box: LiveSandbox): Promise<void> {
  expect(await box.exec(['echo', 'here'])).toMatchObject({ code: 0, stdout: 'here\n' })
}
