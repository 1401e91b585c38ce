import { expect, it } from 'vitest'
import { CraikError } from '../../errors.ts'
import type { SupervisorBody } from '../../operator/api/bodies.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { requireSameEngine, withOtherEngine } from './engine-mismatch.ts'

const { signal } = new AbortController()

function supervisorOf(engine: string | null): Pick<ApiClient, 'supervisor'> {
  const status = async () => ({ engine }) as SupervisorBody
  return { supervisor: { status } as ApiClient['supervisor'] }
}

it('accepts the supervisor’s engine if none is named, and a named one only if it is the same', async () => {
  const same = (environment: NodeJS.ProcessEnv, engine: string | null) =>
    requireSameEngine({ environment, signal }, supervisorOf(engine))
  await same({}, 'unix:///a')
  await same({ CRAIK_ENGINE: 'unix:///a', DOCKER_HOST: 'unix:///b' }, 'unix:///a')
  await same({ CRAIK_ENGINE: '', DOCKER_HOST: 'unix:///b' }, 'unix:///b')
  await expect(same({ DOCKER_HOST: 'unix:///b' }, 'unix:///a')).rejects.toMatchObject({
    code: 'conflict',
    message: expect.stringMatching(/^DOCKER_HOST is unix:\/\/\/b, .* uses unix:\/\/\/a$/),
    hint: expect.stringContaining('craik supervisor stop'),
  })
  await expect(same({ CRAIK_ENGINE: 'unix:///a' }, null)).rejects.toMatchObject({ code: 'conflict' })
})

it('explains a silent engine as the one that the supervisor was started with, if none is named', async () => {
  const silent = new CraikError('unavailable', 'it does not answer', { details: { engine: 'silent' } })
  const explainError = (error: unknown, engine: string | null) =>
    withOtherEngine(error, { environment: {}, signal }, supervisorOf(engine))
  expect(await explainError(silent, null)).toBe(silent)
  expect(await explainError(silent, 'unix:///a')).toMatchObject({
    code: 'unavailable',
    hint: expect.stringContaining('craik supervisor stop'),
  })
  const other = new CraikError('not_found', 'no such image')
  expect(await explainError(other, 'unix:///a')).toBe(other)
})
