/** A build by the engine: from an archive to the id of an image that has no name yet. */
import type { Readable } from 'node:stream'
import { CraikError } from '../../../../errors.ts'
import type { Engine } from '../engine/engine.ts'
import { followAnswer } from './answer-lines.ts'
import type { OnProgress } from './progress.ts'

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
    // Containers of the build's steps go with it, also when it fails.
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
