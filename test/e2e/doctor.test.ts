/** `craik doctor`: what a machine offers, looked at without changing anything. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { run, TestHome } from '../craik.ts'

describe('doctor', () => {
  it('says of each thing whether it is there, and exits 0 where Craik works', async () => {
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
      'supervisor',
    ])
      expect(names).toContain(name)
    const { stdout } = await home.run(['doctor', '--format', 'table'])
    expect(stdout).toMatch(/^ {2}ok {4}node 24/m)
  })

  it('makes no home just to look', async () => {
    using fresh = new TestHome()
    expect((await fresh.run(['doctor'])).code).toBe(0)
    expect((await run('ls', ['-A'], { cwd: fresh.folder, env: { PATH: process.env.PATH! } })).stdout).toBe('')
  })

  it('fails where the store cannot be used, and says why', async () => {
    using broken = new TestHome()
    mkdirSync(join(broken.home, 'state'), { recursive: true, mode: 0o700 })
    writeFileSync(join(broken.home, 'state/craik.sqlite3'), 'not a database', { mode: 0o600 })
    const { code, stdout } = await broken.run(['doctor'])
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toContainEqual(expect.objectContaining({ name: 'store', state: 'none' }))
  })
})
