/** The real image: its name, its cache, its content, and what is left when a build is interrupted. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Engine, openEngine } from '../../src/sandboxes/backends/docker/engine/engine.ts'
import { builtMain, NODE, TestHome } from '../craik.ts'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import { shareHarnesses } from '../harness-image.ts'
import { RecordedEngine } from './recorded-engine.fixture.ts'

interface Built {
  readonly id: string
  readonly name: string
  readonly made: boolean
}
interface Listed extends Built {
  readonly kind: string
  readonly current: boolean
  readonly packages: readonly string[]
}

const BUILD_MS = 15 * 60_000
const IS_ROOT = process.getuid?.() === 0
/** Small packages. One has something to remove: its program has a file capability. */
const PACKAGES = 'iputils-ping,jq'
/** No other test builds this image, and this build never finishes. */
const UNFINISHED = 'cowsay'

describe.skipIf(ENGINE_IS_NEEDED)(`the image ${ENGINE_IS_NEEDED ?? ''}`, () => {
  let engine: Engine
  let recorded: RecordedEngine
  let home: TestHome
  let image: Built

  const craik = <T>(...args: string[]) =>
    home.json<T>(['image', ...args], { env: { CRAIK_ENGINE: recorded.address } })
  const list = () => craik<Listed[]>('list')

  beforeAll(async () => {
    engine = await openEngine(process.env)
    recorded = await RecordedEngine.open(engine.address)
    home = new TestHome()
    await shareHarnesses(home.home, [])
    image = await craik<Built>('build')
  }, BUILD_MS)
  afterAll(async () => {
    await recorded?.[Symbol.asyncDispose]()
    home?.[Symbol.dispose]()
  })

  describe('that exists', () => {
    it('is not built again: Craik only queries the engine', async () => {
      recorded.requests.length = 0
      const again = await craik<Built>('build')
      expect(again).toEqual({ ...image, made: false })
      expect(recorded.requests.filter((request) => !request.startsWith('GET '))).toEqual([])
    })

    it('is listed and shown with its inputs', async () => {
      const found = (await list()).find(({ id }) => id === image.id)!
      expect(found).toMatchObject({ name: image.name, kind: 'sandbox', current: true, packages: [] })
      expect(image.name).toMatch(/^craik\/sandbox:[0-9a-f]{12}$/)
      expect(await craik('show', image.name)).toEqual(found)
      expect(await craik('show', image.id.slice(7, 19))).toEqual(found)
    })

    it('is kept by prune, because the next sandbox needs it', async () => {
      const { kept: stored } = await craik<{ kept: Built[] }>('prune')
      expect(stored.map(({ id }) => id)).toContain(image.id)
      expect((await list()).map(({ id }) => id)).toContain(image.id)
    })
  })

  it('that does not exist is reported as missing, with the next command', async () => {
    const { code, stderr } = await home.run(['image', 'show', 'craik/sandbox:000000000000'], {
      env: { CRAIK_ENGINE: recorded.address },
    })
    expect(code).toBe(3)
    expect(stderr).toContain('craik image list')
  })

  it.each(['jq;id', '--help', 'JQ', '../jq'])('is not built with a package named %s', async (name) => {
    recorded.requests.length = 0
    const { code, stderr } = await home.run(['image', 'build', `--apt=${name}`], {
      env: { CRAIK_ENGINE: recorded.address },
    })
    expect(code).toBe(2)
    expect(stderr).toContain('not a valid Debian package name')
    expect(recorded.requests).toEqual([])
  })

  it('cannot be built without an engine, and the error says so', async () => {
    const { code, stderr } = await home.run(['image', 'build'], {
      env: { CRAIK_ENGINE: `unix://${home.path('none.sock')}` },
    })
    expect(code).toBe(69)
    expect(stderr).toContain('does not answer')
  })

  describe('in a container', () => {
    const inside = (script: string) => runIn(engine, image.id, ['/bin/sh', '-c', script])

    it('runs as the user agent, in the home folder of that user', async () => {
      expect(await inside('id -u; id -un; echo "$HOME"; pwd')).toBe(
        '1000\nagent\n/workspace/home\n/workspace/home\n',
      )
    })

    it('has no setuid or setgid program', async () => {
      expect(await inside('find / -xdev -perm /6000 2>/dev/null; true')).toBe('')
    })

    it('has an apt and an apt-get that say why they cannot install, and what to do instead', async () => {
      for (const program of ['apt', 'apt-get']) {
        const output = await inside(`${program} install jq 2>&1; echo "exit $?"`)
        expect(output).toContain('read-only root file system and no root user')
        expect(output).toContain('craik sandbox create --backend docker --apt jq,ripgrep')
        expect(output).toContain('exit 100')
      }
    })

    it('has a Node that can be run but not read', async () => {
      expect(await inside('stat -c "%a %U" /opt/craik/node; /opt/craik/node --version')).toBe(
        `111 root\n${process.version}\n`,
      )
      expect(await inside('cat /opt/craik/node 2>&1 | head -c 100')).toContain('Permission denied')
    })

    it('has the programs that agents and the sandbox tests start', async () => {
      const programs = 'bash curl git less node perl ps python3 script tini top vi'
      const missing = await inside(`for p in ${programs}; do command -v "$p" >/dev/null || echo "$p"; done`)
      expect(missing).toBe('')
      expect(
        await inside('python3 -c "import ctypes, mmap, pty, resource, subprocess, tarfile" && echo fine'),
      ).toBe('fine\n')
    })

    it('has npm and pip, which install into the home folder', async () => {
      const npm = 'PATH=/opt/craik-harnesses/npm/bin:$PATH; '
      expect(await inside(`${npm}npm --version; npx --version; npm config get prefix --no-progress`)).toMatch(
        /^(11\.[0-9.]+)\n\1\n\/workspace\/home\/\.local\n$/,
      )
      expect(await inside('python3 -m pip --version && python3 -c "import ensurepip"')).toMatch(
        /^pip [0-9.]+ /,
      )
    })

    it('has read-only settings of the shell and of git, from Craik’s own program', async () => {
      for (const name of ['profile', 'bash.bashrc', 'gitconfig'])
        expect(await inside(`readlink -f /etc/${name}; stat -L -c '%a %U' /etc/${name}`)).toBe(
          `/opt/craik/etc/${name}\n444 root\n`,
        )
      expect(await inside('stat -c "%a %U" /opt/craik/git-hooks /opt/craik/git-hooks/*')).toBe(
        '755 root\n555 root\n',
      )
      expect(await inside('ls /opt/craik/git-hooks')).toBe('pre-push\n')
    })

    it('has no MCP server and no MCP settings', async () => {
      const named = 'find / -xdev -iname "*mcp*" -not -path "/proc/*" 2>/dev/null; true'
      expect(await inside(named)).toBe('')
      const findMcpSettings =
        'grep -rlE "mcpServers|mcp_servers|modelcontextprotocol" /etc /opt /workspace /usr/local 2>/dev/null; true'
      expect(await inside(findMcpSettings)).toBe('')
    })

    it.each(['GITHUB_TOKEN', 'GH_ENTERPRISE_TOKEN'])('does not start with the variable %s', async (name) => {
      const container = await engine.docker.createContainer({
        Image: image.id,
        Env: [`${name}=made-up-value`],
        HostConfig: { NetworkMode: 'none' },
        Tty: true,
      })
      try {
        await container.start()
        expect(await container.wait()).toMatchObject({ StatusCode: 64 })
        const output = (await container.logs({ stdout: true, stderr: true })).toString()
        expect(output.trim()).toBe(`craik: ${name} is set, but a sandbox must not have it`)
      } finally {
        await container.remove({ force: true })
      }
    })

    it('has one folder for temporary files, under both of its names', async () => {
      expect(await inside('readlink -f /var/tmp')).toBe('/tmp\n')
    })

    it('contains nothing of the host that built it', async () => {
      const left =
        'ls -A /etc/machine-id /var/lib/apt/lists /var/cache/apt /tmp 2>/dev/null; find /var/log -type f'
      expect((await inside(left)).replace(/^\/.*:$/gm, '').trim()).toBe('')
    })
  })

  describe.skipIf(!IS_ROOT)(
    `with packages ${IS_ROOT ? '' : '(skipped: only root can make one without a registry)'}`,
    () => {
      it('is built once, although two commands request it at the same time', {
        timeout: BUILD_MS,
      }, async () => {
        recorded.requests.length = 0
        const knownToApt = readdirSync('/var/lib/apt/lists')
        const [one, other] = await Promise.all([
          craik<Built>('build', '--apt', PACKAGES),
          craik<Built>('build', '--apt', PACKAGES),
        ])
        expect(one).toMatchObject({ id: other.id, name: other.name })
        expect([one.made, other.made].sort()).toEqual([false, true])
        expect(one.id).not.toBe(image.id)
        // A step of the recipe that ran on the wrong root file system would damage apt on the host.
        expect(readdirSync('/var/lib/apt/lists')).toEqual(knownToApt)
        // The layer of npm, and Craik's own.
        expect(recorded.requests.filter((request) => request.startsWith('POST /build'))).toHaveLength(2)
        expect(await runIn(engine, one.id, ['/bin/sh', '-c', 'echo "{}" | jq -r ".a // \\"jq\\""'])).toBe(
          'jq\n',
        )
        // A file capability would keep the program from starting in a container without capabilities.
        const attribute = 'import os; print("has", os.listxattr("/usr/bin/ping"))'
        expect(await runIn(engine, one.id, ['/usr/bin/python3', '-c', attribute])).toBe('has []\n')
        expect((await list()).find(({ id }) => id === one.id)?.packages).toEqual(PACKAGES.split(','))
        for (const { id, packages } of await list())
          if (packages.length > 0) await engine.docker.getImage(id).remove({ force: true })
      })

      it('is not built with a package that Debian does not have, and the error names the package', {
        timeout: BUILD_MS,
      }, async () => {
        const { code, stderr } = await home.run(['image', 'build', '--apt', 'jq,no-such-package'], {
          env: { CRAIK_ENGINE: recorded.address },
        })
        expect(code).not.toBe(0)
        expect(stderr).toContain('Debian has no package no-such-package')
      })

      it.each(['SIGKILL', 'SIGINT'] as const)(
        'leaves nothing when %s interrupts the build',
        { timeout: BUILD_MS },
        async (signal) => {
          using other = new TestHome()
          const making = build(other, UNFINISHED, engine.address)
          const ended = once(making, 'exit')
          await until(() =>
            processesNaming(other.home).some((command) => /^\S*(?:apt-get|dpkg) /.test(command)),
          )
          making.kill(signal)
          const [code] = await ended
          if (signal === 'SIGINT') expect(code).toBe(130)
          await until(() => processesNaming(other.home).length === 0)
          expect(readFileSync('/proc/self/mountinfo', 'utf8')).not.toContain(other.home)
          expect((await list()).filter(({ packages }) => packages.includes(UNFINISHED))).toEqual([])
          const work = join(other.home, 'cache/images')
          const left = readdirSync(work).filter((name) => name.startsWith('work-'))
          if (signal === 'SIGINT') expect(left).toEqual([])
          else for (const name of left) expect(readdirSync(join(work, name, 'tree'))).toEqual([])
          expect(existsSync(join(work, 'lock'))).toBe(true)
        },
      )
    },
  )
})

function build(home: TestHome, packages: string, address: string): ChildProcess {
  const args = [builtMain(), 'image', 'build', '--from', 'mmdebstrap', '--apt', packages]
  return spawn(NODE, args, {
    env: { PATH: process.env.PATH!, HOME: home.folder, CRAIK_HOME: home.home, CRAIK_ENGINE: address },
    stdio: 'ignore',
  })
}

/** Runs a program in a container of the image, without a network, and returns its output. */
async function runIn(engine: Engine, image: string, argv: readonly string[]): Promise<string> {
  const container = await engine.docker.createContainer({
    Image: image,
    Entrypoint: [...argv],
    Cmd: [],
    HostConfig: {
      NetworkMode: 'none',
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges'],
      ReadonlyRootfs: true,
    },
    Tty: true,
  })
  try {
    await container.start()
    await container.wait()
    return (await container.logs({ stdout: true, stderr: true })).toString().replaceAll('\r\n', '\n')
  } finally {
    await container.remove({ force: true })
  }
}

function processesNaming(folder: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .map((pid) => {
      try {
        const [command, environment] = ['cmdline', 'environ'].map((name) =>
          readFileSync(`/proc/${pid}/${name}`, 'latin1').replaceAll('\0', ' '),
        )
        return `${command}\n${environment}`
      } catch {
        return ''
      }
    })
    .filter((command) => command.includes(folder))
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(50)
}
