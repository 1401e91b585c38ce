/** The images that `craik image prune` removes and keeps, on an engine that no other program uses. */
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { Readable } from 'node:stream'
import { pack } from 'tar-stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { harnessStore } from '../../src/harnesses/packages/harness-store.ts'
import { type Engine, openEngine } from '../../src/sandboxes/backends/docker/engine/engine.ts'
import { labelChanges } from '../../src/sandboxes/backends/docker/image/dockerfile.ts'
import { resolveImage } from '../../src/sandboxes/backends/docker/image/ensure-image.ts'
import { imageName } from '../../src/sandboxes/backends/docker/image/image-names.ts'
import { listImages, pruneImages } from '../../src/sandboxes/backends/docker/image/images.ts'
import { findRecordedImage } from '../../src/sandboxes/backends/docker/image/recorded-image.ts'
import { TestHome } from '../craik.ts'
import { TestEngine, whyNoOwnEngine } from '../engine.ts'

const reason = whyNoOwnEngine()
const OLD = 'f'.repeat(64)
/** Craik's own images all contain these. */
const TOOLS = harnessStore.ids([])

describe.skipIf(reason)(
  `images on an engine of their own ${reason === undefined ? '' : `(skipped: ${reason})`}`,
  () => {
    let own: TestEngine
    let engine: Engine
    let home: TestHome
    let current: string

    beforeAll(async () => {
      own = await TestEngine.start()
      engine = await openEngine({ CRAIK_ENGINE: own.address })
      home = new TestHome()
      await home.json(['image', 'list'], { env: { CRAIK_ENGINE: own.address } })
      const { sandbox } = await resolveImage(engine, { harnesses: TOOLS }, home.path('home/cache/images'))
      current = await importTiny(engine, imageName(sandbox), sandbox.inputs)
    })
    afterAll(async () => {
      await own?.[Symbol.asyncDispose]()
      home?.[Symbol.dispose]()
      if (own === undefined) return
      expect(existsSync(own.folder)).toBe(false)
      expect(readFileSync('/proc/self/mountinfo', 'utf8')).not.toContain(own.folder)
      expect(processesNaming(own.folder)).toEqual([])
    })

    const prune = (inUse: readonly string[] = [], all = false) =>
      pruneImages(engine, home.path('home'), new Set(inUse), { all })
    const ids = async () => (await listImages(engine, home.path('home'))).map(({ id }) => id)

    it('are removed if they are of another build, and stay if they are of this one', async () => {
      const old = await importTiny(engine, 'craik/sandbox:ffffffffffff', OLD)
      const { removed, kept: stored } = await prune()
      expect(removed.map(({ id }) => id)).toEqual([old])
      expect(stored.map(({ image }) => image.id)).toEqual([current])
      expect(await ids()).toEqual([current])
    })

    it('stay if gVisor uses them with this build', async () => {
      const wanted = await resolveImage(
        engine,
        { harnesses: TOOLS, readableNode: true },
        home.path('home/cache/images'),
      )
      const readable = await importTiny(engine, imageName(wanted.sandbox), wanted.sandbox.inputs)
      expect((await prune()).removed).toEqual([])
      expect(await ids()).toContain(readable)
      await engine.docker.getImage(readable).remove()
    })

    it('stay if the record of a sandbox or snapshot names them, even with --all', async () => {
      const old = await importTiny(engine, 'craik/sandbox:ffffffffffff', OLD)
      const { removed } = await prune([old, current], true)
      expect(removed).toEqual([])
      expect(new Set(await ids())).toEqual(new Set([old, current]))
      await prune()
    })

    it('stay if a snapshot of this home needs them, and the output says so', async () => {
      const old = await importTiny(engine, 'craik/sandbox:ffffffffffff', OLD)
      const env = { CRAIK_ENGINE: own.address }
      expect((await home.run(['receipts', 'verify'])).code).toBe(0)
      const pinned = JSON.stringify({ manifest: { image: { id: old, name: 'x' } }, name: 'before' })
      const database = new DatabaseSync(home.path('home/state/craik.sqlite3'))
      const row = database.prepare(
        'INSERT INTO snapshots (id, document, seal, created_at_ms) VALUES (?, ?, ?, 1)',
      )
      row.run('snap_01JCQ3V8Z0W4N5T6R7Y8K9M2PD', pinned, 'of nobody')
      database.close()
      const { removed, kept: stored } = await home.json<{
        removed: unknown[]
        kept: { id: string; why: string }[]
      }>(['image', 'prune'], { env })
      expect(removed).toEqual([])
      expect(stored.find(({ id }) => id === old)?.why).toBe('a sandbox or snapshot uses it')
      const shown = await home.json(['image', 'show', 'craik/sandbox:ffffffffffff'], { env })
      expect(shown).toMatchObject({ sandboxes: [], snapshots: ['before'] })
      await prune()
    })

    it('stay if any container uses them', async () => {
      const old = await importTiny(engine, 'craik/sandbox:ffffffffffff', OLD)
      const container = await engine.docker.createContainer({ Image: old, Cmd: ['/none'] })
      expect((await prune()).kept.find(({ image }) => image.id === old)?.why).toMatch(/container/)
      await container.remove()
      expect((await prune()).removed.map(({ id }) => id)).toEqual([old])
    })

    it('stay without a name, because a user may have built them from an image of Craik', async () => {
      const nameless = await importTiny(engine, undefined, OLD)
      const { removed, kept: stored } = await prune([], false)
      expect(removed).toEqual([])
      expect(stored.find(({ image }) => image.id === nameless)?.why).toMatch(/no name.*docker image prune/)
      await engine.docker.getImage(nameless).remove()
    })

    it('stay if a user built them from an image of Craik, even with its labels', async () => {
      const names = ['hostile:volume', 'craik/sandbox:mine', 'craik/sandbox:ffffffffffff-aaaaaaaaaaaa']
      const derived = await Promise.all(names.map((name) => importTiny(engine, name, OLD)))
      const { removed, kept: stored } = await prune([current], true)
      const reportedIds = [...removed, ...stored.map(({ image }) => image)].map(({ id }) => id)
      for (const id of derived) expect(reportedIds).not.toContain(id)
      for (const id of derived) await engine.docker.getImage(id).remove()
    })

    it('stay while another home may need them, and are removed when it no longer does', async () => {
      const old = await importTiny(engine, 'craik/sandbox:ffffffffffff', OLD)
      using other = new TestHome()
      mkdirSync(other.home, { recursive: true })
      const recorded = { image: old, imageName: 'craik/sandbox:ffffffffffff', runtime: 'runc' } as const
      await findRecordedImage(engine, recorded, other.home)
      const { removed, kept: stored } = await prune([current], true)
      expect(removed).toEqual([])
      expect(stored.find(({ image }) => image.id === old)?.why).toBe(
        'another Craik home on this engine may use it',
      )
      const its = await pruneImages(engine, other.home, new Set([current]))
      expect(its.removed.map(({ id }) => id)).toEqual([old])
      await expect(engine.docker.getImage(old).inspect()).rejects.toMatchObject({ statusCode: 404 })
    })

    it('are never removed if they are not Craik’s', async () => {
      const answer = await engine.docker.importImage(tinyArchive('foreign'), {
        repo: 'craik/sandbox',
        tag: 'aaaaaaaaaaaa',
      })
      for await (const _ of answer);
      await prune([], true)
      expect((await engine.docker.listImages()).flatMap(({ RepoTags }) => RepoTags ?? [])).toContain(
        'craik/sandbox:aaaaaaaaaaaa',
      )
    })

    it('still exist after the engine was killed', async () => {
      const old = await importTiny(engine, 'craik/sandbox:ffffffffffff', OLD)
      await own.kill()
      await expect(listImages(engine, home.path('home'))).rejects.toMatchObject({
        code: 'unavailable',
        details: { engine: 'silent' },
      })
      await own.start()
      expect(await ids()).toContain(old)
    })
  },
)

async function importTiny(engine: Engine, name: string | undefined, inputs: string): Promise<string> {
  const changes = labelChanges({ kind: 'sandbox', inputs, packages: [], harnesses: TOOLS })
  const answer = await engine.docker.importImage(tinyArchive(`${name} ${inputs}`), { changes })
  let text = ''
  for await (const chunk of answer) text += chunk
  const id = /sha256:[0-9a-f]{64}/.exec(text)![0]
  const [repo, tag] = name?.split(':') ?? []
  if (repo !== undefined && tag !== undefined) await engine.docker.getImage(id).tag({ repo, tag })
  return id
}

function tinyArchive(content: string): Readable {
  const archive = pack()
  archive.entry({ name: 'file' }, content)
  archive.finalize()
  return Readable.from(archive)
}

function processesNaming(folder: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ')
      } catch {
        return ''
      }
    })
    .filter((command) => command.includes(folder))
}
