/** Loads the image of sandboxes into a test engine. Its root file system is built once and cached. */
import {
  createReadStream,
  createWriteStream,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { harnessStore } from '../src/harnesses/packages/harness-store.ts'
import type { Engine } from '../src/sandboxes/backends/docker/engine/engine.ts'
import {
  ensureImage,
  type ReadyImage,
  resolveImage,
} from '../src/sandboxes/backends/docker/image/ensure-image.ts'
import { imageName } from '../src/sandboxes/backends/docker/image/image-names.ts'
import { findRecordedImage } from '../src/sandboxes/backends/docker/image/recorded-image.ts'
import { ROOT } from './craik.ts'
import { harnessFolder, readyHarnesses } from './harness-image.ts'

/** Ignored by git. The root file system and the home that builds the image stay from run to run. */
const CACHE = join(ROOT, 'build/test-engine')
const HOME = join(CACHE, 'home')

/** Builds the same images as for a user. Caches their root file system, because building that takes the most time. */
export async function prepareImage(engine: Engine): Promise<void> {
  const base = await loadBase(engine)
  // For tests that use a backend directly, without a package store.
  const { made, ...plain } = await ready(engine, [])
  // Adds a name for this home. Sandboxes of this build use another image, so a test that prunes would otherwise remove
  // this one while others need it.
  await findRecordedImage(engine, { image: plain.id, imageName: plain.name, runtime: 'runc' }, HOME)
  if (made && !existsSync(base.kept)) await save(engine, base.name, base.kept)
  await ready(engine, harnessStore.ids([]))
}

/** Prepares an additional engine: only with the image that sandboxes of this build use. */
export async function prepareSandboxImage(engine: Engine): Promise<void> {
  await loadBase(engine)
  await ready(engine, harnessStore.ids([]))
}

async function loadBase(engine: Engine): Promise<{ readonly name: string; readonly kept: string }> {
  mkdirSync(HOME, { recursive: true, mode: 0o700 })
  mkdirSync(join(HOME, 'cache/images'), { recursive: true, mode: 0o700 })
  const { base } = await resolveImage(engine, {}, join(HOME, 'cache/images'))
  const [name, stored] = [imageName(base), join(CACHE, `base-${base.inputs}.tar`)]
  const isThere = await engine.docker
    .getImage(name)
    .inspect()
    .catch(() => undefined)
  if (isThere === undefined && existsSync(stored)) await load(engine, stored)
  await readyHarnesses([])
  return { name, kept: stored }
}

function ready(engine: Engine, harnesses: readonly string[]): Promise<ReadyImage> {
  let output = ''
  return ensureImage(
    engine,
    { harnesses },
    {
      craikHome: HOME,
      environment: process.env,
      harnessFolder: harnessFolder,
      progress: ({ doing }) => {
        if (doing !== output) process.stderr.write(`image: ${doing} …\n`)
        output = doing
      },
    },
  )
}

async function load(engine: Engine, path: string): Promise<void> {
  const answer = await engine.docker.loadImage(createReadStream(path), { quiet: true })
  for await (const _ of answer);
}

/** Saves the whole image or nothing, and removes those of other recipes. */
async function save(engine: Engine, name: string, path: string): Promise<void> {
  const temporary = `${path}.${process.pid}`
  try {
    await pipeline(await engine.docker.getImage(name).get(), createWriteStream(temporary, { mode: 0o600 }))
    for (const old of readdirSync(CACHE)) if (/^base-.*\.tar$/.test(old)) rmSync(join(CACHE, old))
    renameSync(temporary, path)
  } finally {
    rmSync(temporary, { force: true })
  }
}
