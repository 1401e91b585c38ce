/** The supervisor as commands use it: started on demand, one per home, replaced, killed, gone when idle. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import { hostPath } from '../../src/lib/host-programs.ts'
import { ownerOf } from '../../src/lib/owner.ts'
import { createClient } from '../../src/sdk/client.ts'
import { homeAt } from '../../src/store/home.ts'
import { connectSupervisor, findSupervisor } from '../../src/supervisor/connect-or-start.ts'
import { takeLock } from '../../src/supervisor/lock.ts'
import { runFolder } from '../../src/supervisor/run-folder.ts'
import { builtFolder } from '../built-craik.ts'
import { builtMain, environmentOf, linkCompileCache, NODE, ROOT, TestHome } from '../craik.ts'

let test: TestHome
beforeEach(() => {
  test = new TestHome()
})
afterEach(async () => {
  await test.run(['supervisor', 'stop'])
  test[Symbol.dispose]()
})

const folder = () => runFolder(homeAt(test.home))
const info = () => JSON.parse(readFileSync(folder().info, 'utf8')) as { pid: number; build: string }
const mode = (path: string) => (statSync(path).mode & 0o777).toString(8)
const createDeps = (changes: { readonly mainFile?: string; readonly runFlags?: readonly string[] } = {}) => {
  linkCompileCache(test.home)
  return {
    home: homeAt(test.home),
    mainFile: builtMain(),
    environment: { PATH: process.env.PATH, HOME: test.folder, SECRET_TOKEN: 'never-to-be-seen' },
    ...changes,
  }
}

/** Waits until the condition holds. Only the test's own timeout limits it. */
async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await sleep(20)
}

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ')
  } catch {
    return true
  }
}

describe('starting', () => {
  it('happens with the first command that needs a supervisor, and with none that only reads', async () => {
    expect(await test.json(['supervisor', 'status'])).toEqual({ running: false })
    expect(existsSync(test.home)).toBe(false)
    using client = await connectSupervisor(createDeps())
    expect(await client.sandboxes.list()).toEqual([])
    expect(await test.json(['supervisor', 'status'])).toMatchObject({
      running: true,
      ready: true,
      sandboxes: 0,
    })
  })

  it('does not search for a supervisor in the home of another user', async (context) => {
    if (process.getuid?.() !== 0) return context.skip('only root can give a folder to another user')
    mkdirSync(test.home, { mode: 0o700 })
    chownSync(test.home, 65_534, 65_534)
    const { code, stdout, stderr } = await test.run(['supervisor', 'status'])
    expect([code, stdout]).toEqual([ERRORS.key_exposed.exit, ''])
    expect(stderr).toContain('belongs to another user')
    expect(stderr).not.toContain('chown')
  })

  it('gives eight concurrent commands the same supervisor', async () => {
    const clients = await Promise.all(Array.from({ length: 8 }, () => connectSupervisor(createDeps())))
    const pids = await Promise.all(clients.map(async (client) => (await client.supervisor.version()).pid))
    for (const client of clients) client.close()
    expect(new Set(pids).size).toBe(1)
    const starts = readFileSync(folder().log, 'utf8').match(/"message":"started"/g)
    expect(starts).toHaveLength(1)
  })

  it('creates only files that no other user can access', async () => {
    using _client = await connectSupervisor(createDeps())
    const { folder: run, socket, token, lock, info, log } = folder()
    expect([mode(run), mode(socket), mode(token), mode(lock), mode(info), mode(log)]).toEqual([
      '700',
      '600',
      '600',
      '600',
      '600',
      '600',
    ])
    expect(readFileSync(token, 'utf8')).toMatch(/^[0-9a-f]{64}\n$/)
  })

  it('passes on only the variables that the supervisor needs', async () => {
    const steering = {
      NODE_OPTIONS: '--no-warnings',
      NODE_PATH: test.folder,
      LD_LIBRARY_PATH: test.folder,
      GIT_DIR: test.folder,
      GH_TOKEN: 'never-to-be-seen',
      npm_config_registry: 'never-to-be-seen',
      HTTPS_PROXY: 'http://never-to-be-seen@127.0.0.1:9',
      TMPDIR: test.path('shared'),
    }
    mkdirSync(test.path('shared'))
    chmodSync(test.path('shared'), 0o777)
    const own = createDeps()
    const PATH = `${test.folder}:${process.env.PATH}`
    using client = await connectSupervisor({ ...own, environment: { ...own.environment, ...steering, PATH } })
    const { pid } = await client.supervisor.version()
    const environment = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').filter(Boolean)
    expect(environment.map((entry) => entry.split('=')[0]).sort()).toEqual([
      'CRAIK_HOME',
      'CRAIK_HOST_PROGRAMS',
      'HOME',
      'PATH',
    ])
    expect(environment.join()).not.toContain('never-to-be-seen')
    expect(environment.find((entry) => entry.startsWith('PATH='))).toBe(`PATH=${hostPath()}`)
    expect(readlinkSync(`/proc/${pid}/cwd`)).toBe('/')
    expect(readFileSync(`/proc/${pid}/status`, 'utf8')).toMatch(/^Umask:\t0077$/m)
    expect(readFileSync(`/proc/${pid}/cmdline`, 'utf8')).not.toContain('never-to-be-seen')
  })

  it('refuses a folder that other users can access', async () => {
    mkdirSync(folder().folder, { recursive: true, mode: 0o700 })
    chmodSync(test.home, 0o700)
    chmodSync(folder().folder, 0o755)
    await expect(connectSupervisor(createDeps())).rejects.toMatchObject({ code: 'key_exposed' })
    chmodSync(folder().folder, 0o700)
  })

  it('replaces the socket of a dead supervisor, and only with the lock', async () => {
    mkdirSync(folder().folder, { recursive: true, mode: 0o700 })
    chmodSync(test.home, 0o700)
    writeFileSync(folder().socket, '')
    using client = await connectSupervisor(createDeps())
    expect(await client.sandboxes.list()).toEqual([])
  })

  it('does not follow a link in place of its socket', async () => {
    mkdirSync(folder().folder, { recursive: true, mode: 0o700 })
    chmodSync(test.home, 0o700)
    const precious = test.path('precious')
    writeFileSync(precious, 'precious')
    symlinkSync(precious, folder().socket)
    using client = await connectSupervisor(createDeps())
    expect(await client.sandboxes.list()).toEqual([])
    expect(readFileSync(precious, 'utf8')).toBe('precious')
  })

  it('shows the end of the log when it fails', async () => {
    mkdirSync(homeAt(test.home).state, { recursive: true, mode: 0o700 })
    chmodSync(test.home, 0o700)
    writeFileSync(homeAt(test.home).database, 'this is no database, whatever its name says '.repeat(100), {
      mode: 0o600,
    })
    await expect(connectSupervisor(createDeps())).rejects.toMatchObject({
      code: 'supervisor_unreachable',
      message: expect.stringContaining('failed'),
    })
  })

  it('works from a folder whose path is too long for a socket', async () => {
    const home = homeAt(test.path('a'.repeat(60), 'b'.repeat(60), 'home'))
    const deep = { ...createDeps(), home }
    using client = await connectSupervisor(deep)
    expect(await client.sandboxes.list()).toEqual([])
    const { pid } = await client.supervisor.drain()
    await until(() => isGone(pid))
  })
})

describe('the lock', () => {
  it('is free at once when its owner was killed', async () => {
    const path = test.path('lock')
    const holder = spawn(
      NODE,
      [
        '--input-type=module',
        '-e',
        `const { takeLock } = await import(${JSON.stringify(join(ROOT, 'src/supervisor/lock.ts'))});
         globalThis.lock = takeLock(${JSON.stringify(path)}); console.log(globalThis.lock ? 'held' : 'not'); setInterval(() => {}, 1000)`,
      ],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    const [output] = (await once(holder.stdout, 'data')) as [Buffer]
    expect(output.toString().trim()).toBe('held')
    expect(takeLock(path)).toBeUndefined()
    holder.kill('SIGKILL')
    await once(holder, 'exit')
    const lock = takeLock(path)
    expect(lock).toBeDefined()
    lock!.release()
    lock!.release()
    const again = takeLock(path)
    expect(again).toBeDefined()
    again!.release()
  })
})

describe('ending', () => {
  it('by a kill starts another supervisor at once, and a client does not notice', async () => {
    using client = await connectSupervisor(createDeps())
    for (let i = 0; i < 3; i++) {
      const { pid } = await client.supervisor.version()
      process.kill(pid, 'SIGKILL')
      expect(await client.sandboxes.list()).toEqual([])
      expect((await client.supervisor.version()).pid).not.toBe(pid)
    }
  })

  it('happens by itself when the supervisor is idle', async () => {
    const client = await connectSupervisor(createDeps({ runFlags: ['--idle', '200ms'] }))
    const { pid } = await client.supervisor.version()
    client.close()
    await until(() => isGone(pid))
    expect(existsSync(folder().socket)).toBe(false)
    expect(readFileSync(folder().log, 'utf8')).toContain('"reason":"idle"')
  })

  it('does not happen while a client is connected', async () => {
    using client = await connectSupervisor(createDeps({ runFlags: ['--idle', '100ms'] }))
    const { pid } = await client.supervisor.version()
    await sleep(500)
    expect((await client.supervisor.version()).pid).toBe(pid)
  })

  it('happens cleanly on SIGTERM', async () => {
    using client = await connectSupervisor(createDeps())
    const { pid } = await client.supervisor.version()
    process.kill(pid, 'SIGTERM')
    await until(() => isGone(pid))
    expect(existsSync(folder().socket)).toBe(false)
    expect(existsSync(folder().info)).toBe(false)
    expect(readFileSync(folder().log, 'utf8')).toContain('"message":"stopped"')
  })

  it('is complete when `stop` returns, which also reports that no supervisor runs', async () => {
    using client = await connectSupervisor(createDeps())
    const { pid } = await client.supervisor.version()
    client.close()
    expect(await test.json(['supervisor', 'stop'])).toEqual({ stopped: true, pid, sandboxes: 0 })
    expect(ownerOf(pid)).toBeUndefined()
    expect(await test.json(['supervisor', 'stop'])).toEqual({ stopped: false, pid: null, sandboxes: 0 })
  })
})

/** Copies the same code with a later time, as an upgrade does. */
function copyOfCode(atMs: number): string {
  const copy = test.path(`craik-${atMs}`)
  cpSync(builtFolder(), copy, { recursive: true, preserveTimestamps: true })
  const main = join(copy, 'src/main.cjs')
  utimesSync(main, new Date(atMs), new Date(atMs))
  return main
}

describe('another version', () => {
  it('that is newer replaces the running supervisor', async () => {
    using old = await connectSupervisor(createDeps())
    const before = await old.supervisor.version()
    using client = await connectSupervisor(createDeps({ mainFile: copyOfCode(Date.now() + 60_000) }))
    const after = await client.supervisor.version()
    expect(after.pid).not.toBe(before.pid)
    expect(after.build).not.toBe(before.build)
    await until(() => isGone(before.pid))
    // The older client continues with the newer supervisor, because both use the same API.
    expect((await old.supervisor.version()).pid).toBe(after.pid)
  })

  it('that is older uses the running supervisor', async () => {
    const newer = createDeps({ mainFile: copyOfCode(Date.now() + 60_000) })
    using client = await connectSupervisor(newer)
    const { pid } = await client.supervisor.version()
    using older = await connectSupervisor(createDeps())
    expect((await older.supervisor.version()).pid).toBe(pid)
  })
})

describe('a supervisor whose program was removed', () => {
  /** Starts a supervisor from a folder, and removes that folder. */
  async function orphan(version?: string): Promise<number> {
    const mainFile = copyOfCode(Date.now() + 60_000)
    const root = join(mainFile, '../..')
    const manifest = join(root, 'package.json')
    const own = JSON.parse(readFileSync(manifest, 'utf8')) as object
    if (version !== undefined) writeFileSync(manifest, JSON.stringify({ ...own, version }))
    using client = await connectSupervisor(createDeps({ mainFile }))
    const { pid } = await client.supervisor.status()
    rmSync(root, { recursive: true })
    return pid
  }

  it('is reported by `doctor` and by `status`', async () => {
    const pid = await orphan()
    expect(await test.json(['supervisor', 'status'])).toMatchObject({ pid, program_gone: true })
    const { stdout } = await test.run(['doctor', '--format', 'json'])
    const rows = JSON.parse(stdout) as { readonly name: string }[]
    expect(rows.find(({ name }) => name === 'supervisor')).toMatchObject({
      state: 'warn',
      detail: expect.stringContaining('was removed'),
      fix: 'craik supervisor stop',
    })
  })

  it('is replaced, also by a supervisor whose files are older', async () => {
    const pid = await orphan()
    using client = await connectSupervisor(createDeps())
    const after = await client.supervisor.status()
    expect(after).toMatchObject({ program_gone: false, ready: true })
    expect(after.pid).not.toBe(pid)
    await until(() => isGone(pid))
  })

  it('is reported to a command of an older version, which does not replace it', async () => {
    const pid = await orphan('99.0.0')
    await expect(connectSupervisor(createDeps())).rejects.toMatchObject({
      code: 'version_mismatch',
      message: expect.stringMatching(/newer \(99\.0\.0\).*its program is missing/),
      hint: expect.stringContaining('craik supervisor stop'),
    })
    expect(await test.json(['supervisor', 'stop'])).toMatchObject({ stopped: true, pid })
  })
})

describe('the log', () => {
  it('is shown by `logs`, limited to the last lines on request', async () => {
    using _client = await connectSupervisor(createDeps())
    const { code, stdout } = await test.run(['supervisor', 'logs', '--lines', '1'])
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({
      level: 'info',
      message: 'started',
      version: expect.any(String),
    })
  })

  it('is followed by `logs --follow` until it is interrupted', async () => {
    using client = await connectSupervisor(createDeps())
    const following = spawn(NODE, [builtMain(), 'supervisor', 'logs', '--follow', '--lines', '1'], {
      env: environmentOf(test),
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    let output = ''
    following.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString()
    })
    try {
      await until(() => output.includes('"started"'))
      // `logs` prints the last lines before it follows the log.
      await sleep(1_000)
      await client.supervisor.drain()
      await until(() => output.includes('"shutting down"'))
    } finally {
      following.kill('SIGINT')
    }
    await once(following, 'exit')
  })
})

it('the supervisor serves no client without its token', async () => {
  using _client = await connectSupervisor(createDeps())
  using stranger = createClient({
    connect: async () => ({ socketPath: folder().socket, token: '0'.repeat(64) }),
    timeoutMs: 100,
  })
  await expect(stranger.sandboxes.list()).rejects.toMatchObject({ code: 'supervisor_unreachable' })
})

it('the supervisor is the process that its file names', async () => {
  using client = await connectSupervisor(createDeps())
  expect((await client.supervisor.version()).pid).toBe(info().pid)
  using found = await findSupervisor(createDeps())
  expect(found).toBeDefined()
})
