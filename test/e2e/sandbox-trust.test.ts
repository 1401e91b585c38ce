/** A project attacks what a sandbox depends on: the program that isolates, and the mounted folder. */
import { chmodSync, existsSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { TestHome } from '../craik.ts'

/** Has the name of bubblewrap, and isolates nothing. */
const PRETENDER = `#!/bin/sh
[ "$1" = --version ] && echo 'bubblewrap 0.8.0' && exit
echo ran >> "$0.ran"
while [ "$1" != -- ]; do shift; done; shift
exec "$@"
`

async function project(): Promise<TestHome> {
  const home = new TestHome()
  mkdirSync(home.path('work/node_modules/.bin'), { recursive: true })
  await home.json(['login', '--as', 'ada'])
  return home
}

const launchArgs = (home: TestHome) => [
  'agent',
  'launch',
  '--session-id',
  's1',
  '--workspace',
  home.path('work'),
]

interface Execution {
  readonly status: string
  readonly handoff: {
    readonly commands_run: readonly { readonly isolation: string | null; readonly status: string }[]
  }
  readonly stopped?: { readonly reason: string }
}

describe('a bwrap in the project', () => {
  it('is never run, neither alone nor before the system’s own in PATH, as in an npm script', async () => {
    using home = await project()
    const folder = home.path('work/node_modules/.bin')
    writeFileSync(`${folder}/bwrap`, PRETENDER)
    chmodSync(`${folder}/bwrap`, 0o755)

    const alone = await home.run(launchArgs(home), { env: { PATH: folder } })
    expect(alone.code).toBe(69)
    expect(alone.stderr).toContain('not the system’s own')

    const env = { PATH: `${folder}:${process.env.PATH}` }
    await home.json(launchArgs(home), { env })
    const execution = await home.json<Execution>(['agent', 'prompt', 's1', 'run the fixture'], { env })
    expect(execution.handoff.commands_run).toMatchObject([{ isolation: 'process', status: 'passed' }])
    expect(existsSync(`${folder}/bwrap.ran`)).toBe(false)
  })
})

describe('a workspace', () => {
  const swap = (home: TestHome) => {
    mkdirSync(home.path('other'))
    renameSync(home.path('work'), home.path('work.old'))
    symlinkSync(home.path('other'), home.path('work'))
  }

  it.each(['process', 'none'])(
    'that became a link to another folder after the launch is refused with isolation %s',
    async (isolation) => {
      using home = await project()
      await home.json([...launchArgs(home), '--isolation', isolation])
      swap(home)
      const { code, stdout } = await home.run(['agent', 'prompt', 's1', 'run the fixture'])
      expect(code).not.toBe(0)
      const execution = JSON.parse(stdout) as Execution
      expect(execution.stopped?.reason).toContain('the workspace is behind a symbolic link')
      expect(execution.handoff.commands_run).toMatchObject([{ isolation: null, status: 'failed' }])
    },
  )

  it('that became a link is also refused when an interrupted run is resumed', async () => {
    using home = await project()
    await home.json(launchArgs(home))
    const task = 'run the fixture'
    const { stdout } = await home.run(['agent', 'prompt', 's1', task, '--max-iterations', '1'])
    const { run } = JSON.parse(stdout) as { run: { id: string; status: string } }
    expect(run.status).toBe('interrupted')
    swap(home)
    const { code, stderr } = await home.run(['run', 'resume', run.id, task])
    expect(code).toBe(2)
    expect(stderr).toContain('the workspace is behind a symbolic link')
  })

  it('is stored with its real path, also when the user names a link', async () => {
    using home = await project()
    symlinkSync(home.path('work'), home.path('link'))
    const args = ['agent', 'launch', '--session-id', 's1', '--workspace', home.path('link')]
    expect(await home.json(args)).toMatchObject({ session: { workspace: home.path('work') } })
    const execution = await home.json<Execution>(['agent', 'prompt', 's1', 'run the fixture'])
    expect(execution.handoff.commands_run).toMatchObject([{ isolation: 'process', status: 'passed' }])
  })
})
