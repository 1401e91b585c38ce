/** Real instances of the Docker backend: their isolation, and what they see of the host. */
import { readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { labelsOf } from '../../src/sandboxes/backends/docker/container-names.ts'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import { InstanceRunner, MIB, RUNNERS, SOCKET_RUNNERS } from './instance-runner.fixture.ts'

const SKIPPED = ENGINE_IS_NEEDED === undefined ? '' : ` (${ENGINE_IS_NEEDED})`

describe.skipIf(ENGINE_IS_NEEDED !== undefined).each(RUNNERS)(`as $who, over a $line${SKIPPED}`, (who) => {
  const { uid, hostUser } = who
  let runner: InstanceRunner
  let craikHome: string

  beforeAll(async () => {
    runner = await InstanceRunner.open(who)
    craikHome = runner.craikHome
  })
  afterAll(() => runner?.[Symbol.asyncDispose]())

  it('creates an instance whose sidecar responds, reports its isolation and limits, and leaves nothing when it is destroyed', async () => {
    const spec = runner.specWith()
    const lines = await runner.sendOrder({
      verb: 'create',
      craikHome,
      spec,
      pause: true,
      run: ['id -u; id -un; pwd; env | grep -c ^CRAIK_', 'cat /opt/craik/node', 'cat /proc/1/comm'],
    })
    const user = hostUser?.uid ?? uid
    expect(lines[0]).toMatchObject({
      isolation: 'container',
      hostUid: user,
      limits: {
        memory: 'cgroup',
        processes: 'cgroup',
        cpu: 'cgroup',
        disk: uid === 0 ? 'filesystem' : 'not-enforced',
      },
    })
    expect(lines[1]).toMatchObject({ out: `${user}\nagent\n/workspace/home/project\n0\n` })
    expect(lines[2]).toMatchObject({ out: '', exit: 1 })
    expect(lines[3]).toMatchObject({ out: 'tini\n' })
    const { memoryBytes, processes, cpuMs, outOfMemoryKills } = lines[4]!.observed!
    expect(memoryBytes).toBeGreaterThan(MIB)
    expect(processes).toBeGreaterThan(1)
    expect(cpuMs).toBeGreaterThan(0)
    expect(outOfMemoryKills).toBe(0)
    expect(lines[5]).toEqual({ paused: true })
    expect(lines.at(-1)).toEqual({ destroyed: true, ended: 'it was destroyed' })
    expect(await runner.findLeftovers(spec)).toEqual([])
  })

  it('has no network, no capabilities and a read-only root file system', async () => {
    const spec = runner.specWith()
    const { driver, lines } = await runner.startAndWait({
      verb: 'create',
      craikHome,
      spec,
      run: [
        'cut -d: -f1 /proc/net/dev | tail -n +3',
        'grep -E "^(Cap|NoNew|Seccomp:)" /proc/1/status',
        'for f in / /etc /usr /opt/craik /var /home; do touch $f/x 2>/dev/null && echo $f; done; echo end',
        'touch /tmp/x /run/x /var/tmp/y /workspace/home/x /workspace/home/project/x && echo ok',
        'cat /etc/resolv.conf; ls /var/run/docker.sock 2>/dev/null; find / -xdev -perm /6000 -type f 2>/dev/null; echo end',
      ],
    })
    expect(lines[1]?.out?.trim()).toBe('lo')
    expect(lines[2]?.out).toBe(
      [
        ...['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'].map((set) => `${set}:\t0000000000000000`),
        'NoNewPrivs:\t1',
        'Seccomp:\t2\n',
      ].join('\n'),
    )
    expect(lines[3]?.out).toBe('end\n')
    expect(lines[4]?.out).toBe('ok\n')
    expect(lines[5]?.out).toBe('end\n')
    const { HostConfig, Config, Mounts } = await runner.engine.docker
      .getContainer(String(lines[0]!.handle!.container))
      .inspect()
    expect(HostConfig).toMatchObject({
      NetworkMode: 'none',
      ReadonlyRootfs: true,
      LogConfig: { Type: 'none' },
    })
    expect(Config.Labels).toMatchObject(labelsOf(spec.id, craikHome))
    for (const { Source } of Mounts) expect(Source.startsWith(spec.folder)).toBe(true)
    driver.kill('SIGKILL')
  })
})

describe.skipIf(ENGINE_IS_NEEDED !== undefined).each(SOCKET_RUNNERS)(`as $who${SKIPPED}`, (who) => {
  let runner: InstanceRunner
  let craikHome: string

  beforeAll(async () => {
    runner = await InstanceRunner.open(who)
    craikHome = runner.craikHome
  })
  afterAll(() => runner?.[Symbol.asyncDispose]())

  it('works in place on the caller’s folder, but changes no file that the host executes', async () => {
    const { path, ...there } = runner.workspace('project')
    const lines = await runner.sendOrder({
      verb: 'create',
      craikHome,
      spec: runner.specWith(there),
      run: [
        'cat file.txt; echo theirs >file.txt; git status --short; echo done',
        'for f in .git/hooks/post-commit .git/config .claude/settings.json .envrc .vscode/tasks.json; do (echo x >$f) 2>/dev/null && echo $f; done; mv .git .gone 2>/dev/null && echo moved; echo end',
      ],
    })
    expect(lines[1]).toMatchObject({ out: 'ours\n?? file.txt\ndone\n' })
    expect(lines[2]).toMatchObject({ out: 'end\n' })
    expect(readFileSync(join(path, 'file.txt'), 'utf8')).toBe('theirs\n')
    expect(readdirSync(path).sort()).toEqual(['.git', 'file.txt'])
  })

  it('does not mount a folder that is not a project', async () => {
    const { path, hostUser: owner } = runner.workspace('linked')
    symlinkSync(path, join(runner.folder, 'link'))
    for (const [requested, why] of [
      [join(runner.folder, 'link'), /link/],
      ['/', /system|home/],
      ['/etc', /system/],
      ['/var/run', /system/],
      [runner.folder, /home/],
      [craikHome, /Craik’s own home/],
    ] as const) {
      const spec = runner.specWith({ workspace: { mode: 'in-place', folder: requested }, hostUser: owner })
      const [reported] = await runner.sendOrder({ verb: 'create', craikHome, spec })
      expect(reported?.error?.message, requested).toMatch(why)
      expect(await runner.findLeftovers(spec)).toEqual([])
    }
  })

  it('passes no environment variable of its image to its first program or to any other', async () => {
    const plain = await runner.engine.docker.createContainer({ Image: runner.container.image })
    const changes = ['ENV AWS_SECRET_ACCESS_KEY=hidden', 'ENV LD_PRELOAD=/evil.so PATH=/evil', 'ENV LANG=tlh']
    const { Id: image } = await plain.commit({ changes: changes.join('\n') })
    await plain.remove()
    try {
      const { Config } = await runner.engine.docker.getImage(image).inspect()
      expect(Config.Env).toContain('LD_PRELOAD=/evil.so')
      for (const line of ['socket', 'relay'] as const) {
        const spec = runner.specWith({ container: { ...runner.container, line, image } })
        const run = ['env; tr "\\0" "\\n" </proc/1/environ']
        const [made, reported] = await runner.sendOrder({ verb: 'create', craikHome, spec, run })
        expect(made?.error).toBeUndefined()
        expect(reported?.out).toMatch(/^PATH=/m)
        expect(reported?.out).not.toMatch(/AWS_SECRET|hidden|LD_PRELOAD|evil|tlh/)
        await runner.sendOrder({ verb: 'sweep', craikHome, spec })
      }
    } finally {
      await runner.engine.docker.getImage(image).remove({ force: true })
    }
  })

  it('is created from an image of the same name when its own is lost, or names the image that it needs', async () => {
    const lost = `sha256:${'0'.repeat(64)}`
    const again = runner.specWith({ container: { ...runner.container, image: lost } })
    const [made] = await runner.sendOrder({ verb: 'create', craikHome, spec: again })
    expect(made?.handle?.image).toBe(runner.container.image)
    await runner.sendOrder({ verb: 'sweep', craikHome, spec: again })
    for (const [imageName, hint] of [
      ['craik/sandbox:000000000000', /craik image build --apt PACKAGES/],
      ['mine:1', /docker save/],
    ] as const) {
      const spec = runner.specWith({ container: { ...runner.container, image: lost, imageName } })
      const [reported] = await runner.sendOrder({ verb: 'create', craikHome, spec })
      expect(reported?.error).toMatchObject({ code: 'not_found', hint: expect.stringMatching(hint) })
      expect(reported?.error?.message).toContain(`${imageName} (000000000000)`)
      expect(await runner.findLeftovers(spec)).toEqual([])
    }
  })

  it('refuses an image that declares volumes', async () => {
    const plain = await runner.engine.docker.createContainer({
      Image: runner.container.image,
      NetworkDisabled: true,
    })
    const { Id: image } = await plain.commit({ changes: 'VOLUME /data' })
    await plain.remove()
    try {
      const spec = runner.specWith({ container: { ...runner.container, image } })
      const [reported] = await runner.sendOrder({ verb: 'create', craikHome, spec })
      expect(reported?.error?.message).toMatch(/declares volumes: VOLUME "\/data"/)
      expect(reported?.error?.hint).toContain('without VOLUME')
      expect(await runner.findLeftovers(spec)).toEqual([])
    } finally {
      await runner.engine.docker.getImage(image).remove()
    }
  })
})
