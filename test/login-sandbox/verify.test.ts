/** `craik verify-llm-auth` when an agent's provider refuses the login: it reports what failed, and what to do. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { logInFor } from '../harnesses/prompt-scene.ts'
import { canBe, ROOT_IS_NEEDED } from '../sandbox-home.ts'
import { LoginSandboxScene } from './scene.ts'

const missing = canBe('root') ? undefined : ROOT_IS_NEEDED

describe.skipIf(missing !== undefined)(missing ?? 'an agent that does not answer', () => {
  let here: LoginSandboxScene
  beforeAll(async () => {
    here = await LoginSandboxScene.open({ identity: 'root' }, () => ({
      status: 401,
      isStream: false,
      text: '{}',
    }))
  }, 180_000)
  afterAll(() => here?.[Symbol.asyncDispose]())

  it('is reported with a next step, in a table and in JSON', async () => {
    await logInFor(here.scene, 'claude-code')
    await here.up()
    const requested = await here.run(['verify-llm-auth', '--format', 'json'])
    expect(requested.code).toBe(77)
    const rows = JSON.parse(requested.stdout) as { harness: string; result: string; next: string | null }[]
    expect(rows.find(({ harness }) => harness === 'claude-code')).toMatchObject({
      result: 'failed',
      next: expect.stringContaining('craik accounts --check'),
    })
    expect(rows.find(({ harness }) => harness === 'codex')).toMatchObject({
      result: 'not logged in',
      next: null,
    })
    const { stdout } = await here.run(['verify-llm-auth', '--format', 'table'])
    expect(stdout).toMatch(/^ {2}claude-code: .*craik accounts --check/m)
  })
})
