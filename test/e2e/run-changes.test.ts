/**
 * The changes that a run made in its copy: listed and fetched from a real sandbox, shown as a patch, applied by
 * command.
 */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createWorkspaceRunner } from '../../src/cli/run-changes/workspace-programs.ts'
import { ERRORS } from '../../src/errors.ts'
import { newId } from '../../src/lib/ids.ts'
import { changesBetween } from '../../src/run/changes/file-changes.ts'
import { takeManifest } from '../../src/run/changes/file-manifest.ts'
import { storeChangeSet } from '../../src/run/changes/store-change-set.ts'
import { homeAt } from '../../src/store/home.ts'
import { environmentOf } from '../craik.ts'
import { canBe, type Identity, type LiveSandbox, SandboxHome, USER_UID } from '../sandbox-home.ts'

const IDENTITY: Identity = canBe('root') ? 'root' : 'user'
const MANY = 3_000
const until = new AbortController().signal

let home: SandboxHome
let operator: string
beforeAll(async () => {
  home = await SandboxHome.open({ identity: IDENTITY })
  operator = (await home.json<{ subject: string }>(['whoami', '--format', 'json'])).subject
})
afterAll(() => home[Symbol.asyncDispose]())

const BEFORE = {
  'src/parser.ts': 'one\ntwo\nthree\n',
  'src/gone.ts': 'gone\n',
  'run.sh': '#!/bin/sh\n',
  'was-file': 'a file\n',
  'was-folder/inner': 'in a folder\n',
  'kept.txt': 'as it was\n',
}

let workspaces = 0

interface Prepared {
  readonly folder: string
  readonly runId: string
  readonly sandbox: LiveSandbox
}

/** Creates a copy of a workspace, changes it in the sandbox with a shell script, and stores its change set. */
async function prepareChanges(
  script: string,
  files: Readonly<Record<string, string>> = BEFORE,
): Promise<Prepared> {
  const folder = home.workspace(`workspace-${++workspaces}`, files)
  const sandbox = await home.create(['--workspace', folder])
  const inside = createWorkspaceRunner(home.client(), sandbox.id)
  const before = await takeManifest(inside, until)
  const { code, stderr } = await sandbox.exec(['sh', '-c', `set -e\n${script}`])
  expect([code, stderr]).toEqual([0, ''])
  const changes = changesBetween(before, await takeManifest(inside, until))
  const runId = newId<string>('run', Date.now())
  const input = { home: homeAt(home.home), runId, sandboxId: sandbox.id, operator, nowMs: Date.now() }
  await storeChangeSet({ ...input, workspace: folder }, inside, changes, until)
  return { folder, runId, sandbox }
}

interface AppliedJson {
  readonly counts: Readonly<Record<string, number>>
  readonly files: readonly {
    readonly path: string
    readonly status: string
    readonly reason: string | null
  }[]
  readonly left: readonly { readonly path: string; readonly reason: string }[]
  readonly receipt_id: string | null
}

async function apply(
  runId: string,
  ...flags: string[]
): Promise<AppliedJson & { readonly code: number | null }> {
  const { code, stdout, stderr } = await home.run(['run', 'apply', runId, ...flags])
  if (stdout === '') throw new Error(stderr)
  return { ...(JSON.parse(stdout) as AppliedJson), code }
}

const statuses = ({ files }: AppliedJson) =>
  Object.fromEntries(files.map(({ path, status }) => [path, status]))

const EDIT = `
printf 'one\\nTWO\\nthree\\n' > src/parser.ts
rm src/gone.ts
chmod +x run.sh
mkdir -p new/deep
printf 'hello' > new/deep/file.txt
ln -s deep/file.txt new/link
rm was-file; mkdir was-file; echo inner > was-file/inner
rm -r was-folder; echo flat > was-folder
`

describe('changes of a run', () => {
  it('are shown as a patch, applied once, and already there the second time', async () => {
    const { folder, runId, sandbox } = await prepareChanges(EDIT)
    await sandbox.delete()

    const { stdout: patch } = await home.run(['run', 'diff', runId])
    expect(patch).toContain(
      '--- a/src/parser.ts\n+++ b/src/parser.ts\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n',
    )
    const copy = home.workspace(`copy-${runId}`, BEFORE)
    execFileSync('git', ['apply', '-p1', '-'], { cwd: copy, input: patch })
    expect(readFileSync(join(copy, 'new/deep/file.txt'), 'utf8')).toBe('hello')
    expect(readlinkSync(join(copy, 'new/link'))).toBe('deep/file.txt')

    const stat = await home.run(['run', 'diff', runId, '--stat'])
    expect(stat.stdout).toMatch(/src\/parser\.ts +changed +\+1 −1/)

    const dry = await apply(runId, '--dry-run')
    expect([dry.code, dry.counts.ready, dry.receipt_id]).toEqual([0, 9, null])
    expect(readFileSync(join(folder, 'src/parser.ts'), 'utf8')).toBe(BEFORE['src/parser.ts'])

    const done = await apply(runId)
    expect([done.code, done.counts.applied]).toEqual([0, 9])
    expect(done.receipt_id).toMatch(/^rcpt_/)
    expect(readFileSync(join(folder, 'src/parser.ts'), 'utf8')).toBe('one\nTWO\nthree\n')
    expect(existsSync(join(folder, 'src/gone.ts'))).toBe(false)
    expect(statSync(join(folder, 'run.sh')).mode & 0o777).toBe(0o755)
    expect(readlinkSync(join(folder, 'new/link'))).toBe('deep/file.txt')
    expect(readFileSync(join(folder, 'was-file/inner'), 'utf8')).toBe('inner\n')
    expect(readFileSync(join(folder, 'was-folder'), 'utf8')).toBe('flat\n')
    for (const path of ['src/parser.ts', 'new', 'new/deep', 'new/deep/file.txt', 'new/link'])
      expect([path, lstatSync(join(folder, path)).uid]).toEqual([path, USER_UID])

    const again = await apply(runId)
    expect([again.code, again.counts.already, again.receipt_id]).toEqual([0, 9, null])
    // The patch shows the stored changes, so it is the same as before.
    expect((await home.run(['run', 'diff', runId])).stdout).toBe(patch)
    expect((await home.run(['receipts', 'verify', '--replay'])).code).toBe(0)
    const list = await home.json<{ body: { operation?: string; target?: string } }[]>([
      'receipts',
      'list',
      '--run',
      runId,
      '--format',
      'json',
    ])
    expect(JSON.stringify(list)).toContain(`run/${runId}`)
  })

  it('conflict with changes in the folder, and then nothing is written without --skip-conflicts', async () => {
    const { folder, runId } = await prepareChanges(EDIT)
    writeFileSync(join(folder, 'src/parser.ts'), 'mine\n')
    mkdirSync(join(folder, 'new/deep'), { recursive: true })
    writeFileSync(join(folder, 'new/deep/file.txt'), 'mine too')
    rmSync(join(folder, 'run.sh'))
    writeFileSync(join(folder, 'was-folder/mine'), 'keep me')
    const refused = await apply(runId)
    expect([refused.code, refused.counts.conflict]).toEqual([ERRORS.conflict.exit, 4])
    expect(existsSync(join(folder, 'src/gone.ts'))).toBe(true)
    expect(existsSync(join(folder, 'new/link'))).toBe(false)

    const rest = await apply(runId, '--skip-conflicts')
    expect(rest.code).toBe(ERRORS.conflict.exit)
    expect(statuses(rest)).toEqual({
      'src/parser.ts': 'conflict',
      'new/deep/file.txt': 'conflict',
      'run.sh': 'conflict',
      'was-folder': 'conflict',
      'was-folder/inner': 'applied',
      'src/gone.ts': 'applied',
      'new/link': 'applied',
      'was-file': 'applied',
      'was-file/inner': 'applied',
    })
    expect(readFileSync(join(folder, 'src/parser.ts'), 'utf8')).toBe('mine\n')
    expect(readFileSync(join(folder, 'was-folder/mine'), 'utf8')).toBe('keep me')
  })

  it('are denied by a policy that never allows writing to a repository, and nothing is written', async () => {
    const { folder, runId } = await prepareChanges('echo x > kept.txt')
    const { code, stderr } = await home.run(['run', 'apply', runId, '--profile', 'strict'])
    expect([code, stderr]).toEqual([ERRORS.denied.exit, expect.stringContaining('strict.never')])
    expect(readFileSync(join(folder, 'kept.txt'), 'utf8')).toBe(BEFORE['kept.txt'])
  })

  it('of an unknown run, or of a path instead of an id, are not found', async () => {
    for (const id of ['run_01JCQ3V8Z0W4N5T6R7Y8K9M2PD', '../secrets', '.']) {
      for (const verb of ['diff', 'apply']) {
        const { code, stderr } = await home.run(['run', verb, id])
        expect([code, stderr]).toEqual([ERRORS.not_found.exit, expect.stringContaining('craik run list')])
      }
    }
  })

  it('are available only to the operator of the run', async () => {
    const { runId } = await prepareChanges('echo x > kept.txt')
    const record = join(home.home, 'runs', runId, 'changes.json')
    writeFileSync(record, readFileSync(record, 'utf8').replace(operator, 'local-user:somebody-else'))
    for (const verb of ['diff', 'apply'])
      expect((await home.run(['run', verb, runId])).code).toBe(ERRORS.denied.exit)
  })
})

describe('a hostile sandbox', () => {
  it('writes nothing outside the workspace, into git, or through a link', async () => {
    const outside = home.workspace('outside', { passwd: 'root' })
    const { folder, runId } = await prepareChanges(
      `
mkdir -p .GIT/hooks 'sub/.git ' GIT~1 sub/nested/.git
echo '#!/bin/sh' > .GIT/hooks/pre-commit
echo x > 'sub/.git /config'; echo x > GIT~1/config; echo x > sub/nested/.git/config
mkfifo pipe; rm kept.txt; mkfifo kept.txt
ln -s /etc/passwd absolute; ln -s ../../outside climbing; ln -s .git/config into-git
ln -s ../outside one-up
printf 'x' > "$(printf 'new\\nline')"
printf 'x' > "$(printf 'latin\\351')"
echo evil > lib/passwd
chmod u+s run.sh; chmod 4755 run.sh
chmod 000 shut
`,
      { ...BEFORE, 'lib/passwd': 'mine', 'shut/inner': 'still here' },
    )
    renameSync(join(folder, 'lib'), join(folder, 'lib-before'))
    symlinkSync(outside, join(folder, 'lib'))
    const done = await apply(runId, '--skip-conflicts')
    expect(statuses(done)).toEqual({ 'lib/passwd': 'conflict', 'run.sh': 'applied' })
    const left = Object.fromEntries(done.left.map(({ path, reason }) => [path, reason]))
    expect(left).toEqual({
      '.GIT/hooks/pre-commit': 'it belongs to git',
      'sub/.git /config': 'it belongs to git',
      'GIT~1/config': 'it belongs to git',
      pipe: 'it is a pipe',
      'kept.txt': 'it is a pipe',
      absolute: 'the link points outside the folder',
      climbing: 'the link points outside the folder',
      'one-up': 'the link points outside the folder',
      'into-git': 'the link points into a git folder',
      '"new?line"': 'its name is invalid',
      '"latin\ufffd"': 'its name is invalid',
      shut: 'it is unreadable in the sandbox',
      'shut/inner': 'its folder is unreadable in the sandbox',
    })
    expect(readFileSync(join(outside, 'passwd'), 'utf8')).toBe('root')
    expect(readdirSync(outside)).toEqual(['passwd'])
    expect(readFileSync(join(folder, 'kept.txt'), 'utf8')).toBe(BEFORE['kept.txt'])
    expect(readFileSync(join(folder, 'shut/inner'), 'utf8')).toBe('still here')
    expect(statSync(join(folder, 'run.sh')).mode & 0o7777).toBe(0o755)
    expect(readdirSync(folder).sort()).toEqual(
      [
        ...new Set(Object.keys(BEFORE).map((path) => path.split('/')[0]!)),
        'lib',
        'lib-before',
        'shut',
      ].sort(),
    )
  })

  it('changes nothing when the folder of the workspace itself became a link', async () => {
    const { folder, runId } = await prepareChanges('echo evil > kept.txt')
    renameSync(folder, `${folder}-moved`)
    symlinkSync(`${folder}-moved`, folder)
    const { code } = await home.run(['run', 'apply', runId])
    expect(code).toBe(ERRORS.usage.exit)
    expect(readFileSync(join(folder, 'kept.txt'), 'utf8')).toBe(BEFORE['kept.txt'])
  })

  it('that changes files after they were stored does not change what is applied', async () => {
    const { runId, folder, sandbox } = await prepareChanges('echo first > kept.txt')
    await sandbox.exec(['sh', '-c', 'echo second > kept.txt'])
    expect((await apply(runId)).code).toBe(0)
    expect(readFileSync(join(folder, 'kept.txt'), 'utf8')).toBe('first\n')
  })

  it('whose stored files were replaced is reported as tampered, and nothing is applied', async () => {
    const { runId, folder } = await prepareChanges('echo first > kept.txt')
    const files = join(home.home, 'runs', runId, 'files')
    for (const name of readdirSync(files)) {
      chmodSync(join(files, name), 0o600)
      writeFileSync(join(files, name), 'exchanged')
    }
    expect((await home.run(['run', 'apply', runId])).code).toBe(ERRORS.tampered.exit)
    expect(readFileSync(join(folder, 'kept.txt'), 'utf8')).toBe(BEFORE['kept.txt'])
  })

  it(`may change ${MANY.toLocaleString('en')} files, and an apply that was killed can be repeated`, async () => {
    const { folder, runId } = await prepareChanges(
      `mkdir many; i=0; while [ $i -lt ${MANY} ]; do echo $i > many/$i; i=$((i + 1)); done`,
    )
    const { node, main } = home.program
    const killed = spawn(node, [main, 'run', 'apply', runId], {
      cwd: home.folder,
      stdio: 'ignore',
      env: environmentOf(home),
      ...home.user,
    })
    const ended = once(killed, 'exit')
    const many = join(folder, 'many')
    while (!existsSync(many) || readdirSync(many).length < 100) await sleep(5)
    killed.kill('SIGKILL')
    expect(await ended).toEqual([null, 'SIGKILL'])
    const done = await apply(runId)
    expect(done.code).toBe(0)
    expect(done.counts.already).toBeGreaterThanOrEqual(99)
    expect(done.counts.applied! + done.counts.already!).toBe(MANY)
    expect(readdirSync(many).filter((name) => !/^\d+$/.test(name))).toEqual([])
    expect(readFileSync(join(many, String(MANY - 1)), 'utf8')).toBe(`${MANY - 1}\n`)
    expect((await home.run(['receipts', 'verify'])).code).toBe(0)
  })
})
