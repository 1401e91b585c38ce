/** Puts the image that sandboxes run into an engine of the tests: its root file system is made once, and kept. */
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

/** Ignored by git: the root file system survives from run to run, and so does the home that the image is made from. */
const CACHE = join(ROOT, 'build/test-engine')
const HOME = join(CACHE, 'home')

/** The same images as a person gets; their root file system is kept, because making that takes the most. */
export async function prepareImage(engine: Engine): Promise<void> {
  const base = await loadBase(engine)
  // For a backend that is asked by itself, without a shelf.
  const { made, ...plain } = await ready(engine, [])
  // Sandboxes of this build are made of another one: a test that prunes would take it from those that need it.
  await findRecordedImage(engine, { image: plain.id, imageName: plain.name, runtime: 'runc' }, HOME)
  if (made && !existsSync(base.kept)) await save(engine, base.name, base.kept)
  await ready(engine, harnessStore.ids([]))
}

/** For an engine beside that of all tests: only what sandboxes of this build are made of. */
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

/** Whole or not at all; those of other recipes go. */
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
