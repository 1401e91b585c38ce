/** `craik doctor` checks the host without changing anything. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import { run, TestHome } from '../craik.ts'

describe('doctor', () => {
  it('reports the state of each requirement, and exits with 0 where Craik works', async () => {
    using home = new TestHome()
    const rows = await home.json<{ name: string; state: string; detail: string; fix: string | null }[]>([
      'doctor',
    ])
    for (const row of rows) expect(['ok', 'warn', 'none']).toContain(row.state)
    const names = rows.map(({ name }) => name.split(' ')[0])
    for (const name of [
      'node',
      'bubblewrap',
      'tini',
      'cgroups',
      'docker',
      'kvm',
      'disk',
      'store',
      'limits',
      'supervisor',
    ])
      expect(names).toContain(name)
    const { stdout } = await home.run(['doctor', '--format', 'table'])
    expect(stdout).toMatch(/^ {2}ok {4}node 24/m)
  })

  it('does not create a Craik home', async () => {
    using fresh = new TestHome()
    expect((await fresh.run(['doctor'])).code).toBe(0)
    // Compiled code goes to the user's cache.
    const { stdout } = await run('ls', ['-A'], { cwd: fresh.folder, env: { PATH: process.env.PATH! } })
    expect(stdout).toBe('.cache\n')
  })

  it('reports how much of the total limits is in use, and errors in the limits file', async () => {
    using home = new TestHome()
    const limits = async () =>
      (await home.json<{ name: string }[]>(['doctor'])).find(({ name }) => name === 'limits')
    mkdirSync(join(home.home, 'config'), { recursive: true, mode: 0o700 })
    const says = (text: string) => writeFileSync(join(home.home, 'config/limits.yaml'), text, { mode: 0o600 })
    says('sandboxes: 7\nrunning: 3\nmemory_gib: 48\ncpus: 8\ndisk_gib: 500\n')
    const detail = '0 of 7 sandboxes, 0 of 3 running, 0 B of 48 GB memory, 0 of 8 cores, 0 B of 500 GB disk'
    expect(await limits()).toMatchObject({ state: 'ok', detail })
    says('runing: 3\n')
    expect(await limits()).toMatchObject({
      state: 'none',
      detail: expect.stringContaining('config/limits.yaml'),
      fix: expect.stringContaining('limits.yaml'),
    })
    // The error is the same when the supervisor reads the file.
    const { code, stderr } = await home.run(['sandbox', 'list'])
    expect(code).toBe(ERRORS.invalid_config.exit)
    expect(stderr).toMatch(
      /^craik: config\/limits\.yaml: unknown setting runing; [^{]*\n {2}fix the file[^{]*$/,
    )
  })

  it('fails when the store is unusable, and says why', async () => {
    using broken = new TestHome()
    mkdirSync(join(broken.home, 'state'), { recursive: true, mode: 0o700 })
    writeFileSync(join(broken.home, 'state/craik.sqlite3'), 'not a database', { mode: 0o600 })
    const { code, stdout } = await broken.run(['doctor'])
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toContainEqual(expect.objectContaining({ name: 'store', state: 'none' }))
  })
})
