/** Builds an image without a name from an archive, and returns its id. */
import type { Readable } from 'node:stream'
import { CraikError } from '../../../../errors.ts'
import type { Engine } from '../engine/engine.ts'
import { followAnswer } from './answer-lines.ts'
import type { OnProgress } from './image-progress.ts'

export interface BuildOptions {
  readonly signal: AbortSignal
  readonly onProgress: OnProgress
}

const DEADLINE_MS = 20 * 60_000

export async function buildImage(
  engine: Engine,
  context: Readable,
  { signal, onProgress }: BuildOptions,
): Promise<string> {
  const doing = 'build an image'
  const call = async (until: AbortSignal) => {
    let id: string | undefined
    // The engine removes the containers of the build's steps, also after a failure.
    const options = { rm: true, forcerm: true, abortSignal: until }
    const answer = await engine.docker.buildImage(context, options)
    await followAnswer(answer, doing, (line) => {
      id = line.aux?.ID ?? id
      const step = /^Step (\d+)\/(\d+)/i.exec(line.stream ?? '')
      if (step !== null) onProgress({ part: Number(step[1]) / (Number(step[2]) + 1), doing: 'building' })
    })
    return id
  }
  try {
    const id = await engine.ask(doing, call, { deadlineMs: DEADLINE_MS, signal })
    if (id !== undefined && /^(?:sha256:)?[0-9a-f]{64}$/.test(id))
      return id.startsWith('sha256:') ? id : `sha256:${id}`
    throw new CraikError('unavailable', 'the engine did not report the id of the built image')
  } finally {
    context.destroy()
  }
}
