/** A copy of a Craik home with running containers never affects the containers of the original. */
import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { expect, it } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import { SandboxHome } from '../sandbox-home.ts'

it.skipIf(ENGINE_IS_NEEDED !== undefined)(
  ENGINE_IS_NEEDED ?? 'a container in place continues when a copy of its home lists, resumes and deletes it',
  async () => {
    await using home = await SandboxHome.open({ identity: 'user', backend: 'docker' })
    const workspace = home.workspace('project', { 'README.md': 'mine\n' })
    const { id } = await home.create(['--workspace', workspace, '--in-place'])
    const taken = readdirSync(workspace)
    const folder = home.path('copy')
    execFileSync('cp', ['-a', home.home, folder])
    const inCopy = { env: { CRAIK_HOME: folder } }
    try {
      const listed = await home.json(['sandbox', 'list', '--format', 'json'], inCopy)
      const notice = expect.stringContaining(`it runs in another home (${home.home})`)
      expect(listed).toMatchObject([{ id, state: 'lost', notice }])
      const resumed = await home.run(['sandbox', 'resume', id], inCopy)
      expect(resumed.stderr).toContain(`runs in another home (${home.home})`)
      expect(resumed.code).toBe(ERRORS.conflict.exit)
      const deleted = await home.run(['sandbox', 'delete', id, '--yes'], inCopy)
      expect(deleted.code, deleted.stderr).toBe(0)
    } finally {
      await home.run(['supervisor', 'stop'], inCopy)
    }
    // The workspace still has the protected files of the running sandbox.
    expect(readdirSync(workspace)).toEqual(taken)
    expect(await home.run(['sandbox', 'exec', id, '--', 'echo', 'here'])).toMatchObject({ stdout: 'here\n' })
  },
)
