/** Archives from a sandbox can contain anything. Unpacking them writes only to the target folder. */
import { chmodSync, readdirSync, readFileSync, readlinkSync, statSync, writeFileSync } from 'node:fs'
import { join, relative, resolve, sep } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { pack } from 'tar-stream'
import { beforeAll, expect, it } from 'vitest'
import type { LiveSandbox } from '../sandbox-home.ts'
import { expectToWork, type Scenario } from './scene.ts'

type Entry = Parameters<ReturnType<typeof pack>['entry']>[0] & { readonly content?: string }

/**
 * Unpacks the entries in order and checks nothing, as many tools do. The attack succeeded if it overwrote the marker.
 */
const UNPACK = `
  import tarfile
  with tarfile.open(args[0]) as archive:
      for entry in archive:
          path = os.path.join(args[1], entry.name)
          if entry.issym() and os.path.isdir(path) and not os.path.islink(path): os.rmdir(path)
          try: archive.extract(entry, args[1], set_attrs=False)
          except (KeyError, tarfile.TarError): pass
  if 'written' not in open(args[2]).read(): raise OSError(errno.ENOENT, 'not written')`

const file = (name: string): Entry => ({ name, content: 'written' })
const folder = (name: string): Entry => ({ name, type: 'directory', mode: 0o755 })
const link = (name: string, linkname: string): Entry => ({ name, type: 'symlink', linkname })
const hardLink = (name: string, linkname: string): Entry => ({ name, type: 'link', linkname })

/** `marker` is a host path in the folder `outside`, which lies beside the folder that the archive is unpacked to. */
const ARCHIVES: Readonly<Record<string, (marker: string) => readonly Entry[]>> = {
  'a file behind a link': (marker) => [
    folder('x'),
    link('x/out', resolve(marker, '..')),
    file(`x/out/${nameOf(marker)}`),
  ],
  'a file behind a relative link': (marker) => [
    folder('x'),
    link('x/up', '..'),
    link('x/up2', 'up/..'),
    link('x/out', `../../outside`),
    file(`x/out/${nameOf(marker)}`),
  ],
  'a folder that becomes a link': (marker) => [
    folder('x'),
    folder('x/out'),
    link('x/out', resolve(marker, '..')),
    file(`x/out/${nameOf(marker)}`),
  ],
  'a link that is written to': (marker) => [folder('x'), link('x/out', marker), file('x/out')],
  'a path with dots': (marker) => [folder('x'), file(`x/../../outside/${nameOf(marker)}`)],
  'an absolute path': (marker) => [folder('x'), file(marker)],
  'a hard link that is written to': (marker) => [folder('x'), hardLink('x/out', marker), file('x/out')],
}

export const archives: Scenario = (scene) => {
  let box: LiveSandbox

  /** The sandbox's `tar` is the attacker's own program, which outputs any archive. */
  beforeAll(async () => {
    box = await scene().home.create(['--env', 'PATH=/workspace/home/bin:/usr/bin:/bin'])
    const script =
      'mkdir -p ~/bin x && printf "#!/bin/sh\\ncat /workspace/home/archive\\n" > ~/bin/tar && chmod +x ~/bin/tar'
    expect(await box.exec(['sh', '-c', script])).toMatchObject({ code: 0 })
  })

  async function copyOut(entries: readonly Entry[], to: string): Promise<Buffer> {
    const archive = await archiveOf(entries)
    const stdin = archive.toString('base64')
    await box.exec(['sh', '-c', 'cat > ~/archive'], { stdin, stdin_encoding: 'base64' })
    const { code, stdout, stderr } = await scene().home.run(['sandbox', 'cp', `${box.id}:x/.`, to])
    // Craik unpacked the attacker's archive, or refused it for its content. An archive of the real `tar` would prove
    // nothing.
    if (code === 0) expect(JSON.parse(stdout)).not.toMatchObject({ files: 0, skipped_count: 0 })
    else expect(stderr).toContain('refused to unpack')
    return archive
  }

  for (const [what, entriesFor] of Object.entries(ARCHIVES)) {
    it(`unpacking an archive of the sandbox writes only to the target folder: ${what}`, async () => {
      const { home, outside } = scene()
      const name = what.replaceAll(' ', '-')
      const [free, held] = ['free', 'held'].map((kind) => join(outside, `${name}-${kind}`)) as [
        string,
        string,
      ]
      for (const marker of [free, held]) {
        writeFileSync(marker, 'as it was')
        // The mode must not stop the attack: the kernel allows hard links only to files that the user can write.
        chmodSync(marker, 0o666)
      }

      const archive = join(outside, `${name}.tar`)
      writeFileSync(archive, await archiveOf(entriesFor(free)))
      const naive = home.workspace(`naive-${name}`)
      await expectToWork('everything', UNPACK, [archive, naive, free])

      const target = home.workspace(`unpacked-${name}`)
      await copyOut(entriesFor(held), target)
      expect(readFileSync(held, 'utf8')).toBe('as it was')
      expectNoWayOut(target)
    })
  }

  it('unpacking an archive of the sandbox creates no devices and keeps no setuid or setgid bits', async () => {
    const target = scene().home.workspace('unpacked-rights')
    await copyOut(
      [
        folder('x'),
        { name: 'x/setuid', mode: 0o6777, content: 'written' },
        { name: 'x/zero', type: 'character-device', devmajor: 1, devminor: 5, mode: 0o666 },
        { name: 'x/pipe', type: 'fifo', mode: 0o666 },
        file('x/plain'),
      ],
      target,
    )
    expect(readdirSync(target)).toContain('plain')
    for (const name of readdirSync(target)) {
      const stats = statSync(join(target, name))
      expect(stats.isFile() || stats.isDirectory(), name).toBe(true)
      expect(stats.mode & 0o7000, name).toBe(0)
    }
  })
}

/** Expects that every link in the folder leads to a path in the folder. */
function expectNoWayOut(target: string): void {
  for (const entry of readdirSync(target, { recursive: true, withFileTypes: true })) {
    if (!entry.isSymbolicLink()) continue
    const leads = resolve(entry.parentPath, readlinkSync(join(entry.parentPath, entry.name)))
    expect(relative(target, leads).split(sep)[0], entry.name).not.toBe('..')
  }
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}

async function archiveOf(entries: readonly Entry[]): Promise<Buffer> {
  const archive = pack()
  for (const { content, ...header } of entries) archive.entry(header, content ?? '')
  archive.finalize()
  return buffer(archive)
}
