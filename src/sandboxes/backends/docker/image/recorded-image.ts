/** Finds the recorded image of a sandbox for each start, and keeps it for the next one. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ImageInspectInfo } from 'dockerode'
import { CraikError } from '../../../../errors.ts'
import { readPrivateFile } from '../../../../lib/private-files.ts'
import { type ContainerSpec, isOwnImageName } from '../../../backend.ts'
import { agentsOf, harnessName, isHarnessId } from '../../../harness-package.ts'
import type { Engine } from '../engine/engine.ts'
import { isGone } from '../engine/engine-request.ts'
import { IMAGE_LABELS } from './dockerfile.ts'
import { resolveImage } from './ensure-image.ts'
import { imageHarnesses, imageName, keepingName, ownNames, plainNames, wholeId } from './image-names.ts'
import { parsePackages } from './packages.ts'

const MAX_NOTE_BYTES = 64 * 1024

export interface FoundImage {
  /** `sha256:…` */
  readonly id: string
  readonly environment: readonly string[]
  /** The folders that the image declares as volumes. */
  readonly volumes: readonly string[]
}

type Recorded = Pick<ContainerSpec, 'image' | 'imageName' | 'runtime'>

/**
 * Returns the recorded image. If the engine lost it, returns another one of Craik's with the same inputs, and so the
 * same name. Adds a name for this home, so that nobody removes it while the sandbox is stopped.
 */
export async function findRecordedImage(
  engine: Engine,
  recorded: Recorded,
  craikHome: string,
): Promise<FoundImage> {
  const found = (await inspect(engine, recorded.image)) ?? (await findEqualImage(engine, recorded))
  if (found === undefined) throw await imageLostError(engine, recorded, craikHome)
  await tagImage(engine, found, craikHome)
  return {
    id: wholeId(found.Id),
    environment: found.Config.Env ?? [],
    volumes: Object.keys(found.Config.Volumes ?? {}),
  }
}

async function findEqualImage(engine: Engine, recorded: Recorded): Promise<ImageInspectInfo | undefined> {
  if (!isOwnImageName(recorded.imageName)) return undefined
  const found = await inspect(engine, recorded.imageName)
  const { isFirst = false } = found ? ownNames(found.Id, found.RepoTags, found.Config.Labels) : {}
  return isFirst ? found : undefined
}

async function inspect(engine: Engine, image: string): Promise<ImageInspectInfo | undefined> {
  try {
    return await engine.ask('inspect an image', () => engine.docker.getImage(image).inspect())
  } catch (error) {
    if (isGone(error)) return undefined
    throw error
  }
}

/** Craik does not keep images of others. */
async function tagImage(engine: Engine, found: ImageInspectInfo, craikHome: string): Promise<void> {
  const { made, keeping } = ownNames(found.Id, found.RepoTags, found.Config.Labels)
  if (made === undefined && keeping.length === 0) return
  const name = keepingName(craikHome, found.Id)
  if (plainNames(found.RepoTags).includes(name)) return
  const [repo, tag] = name.split(':') as [string, string]
  await engine.ask('tag an image', () => engine.docker.getImage(found.Id).tag({ repo, tag }))
  if (made !== undefined) await noteParts(craikHome, made, found.Config.Labels)
}

async function imageLostError(engine: Engine, recorded: Recorded, craikHome: string): Promise<CraikError> {
  const { image, imageName: name } = recorded
  const id = image.slice('sha256:'.length).slice(0, 12)
  return new CraikError(
    'not_found',
    `the engine at ${engine.address} has no image ${name} (${id}), which the sandbox uses`,
    { hint: await describeHowToGet(engine, recorded, craikHome) },
  )
}

const BRING = 'copy that exact image here, for example with:  docker save | docker load'

/** Returns the command that builds the image, if this build of Craik can build it. */
async function describeHowToGet(engine: Engine, recorded: Recorded, craikHome: string): Promise<string> {
  if (!isOwnImageName(recorded.imageName)) return BRING
  const noted = await readNotedParts(craikHome, recorded.imageName)
  const { packages, harnesses } = noted ?? { packages: [], harnesses: [] }
  const readableNode = recorded.runtime === 'runsc'
  const request = { packages, harnesses, readableNode }
  const { sandbox } = await resolveImage(engine, request, await folderOf(craikHome))
  const agents = agentsOf(harnesses)
  const apt = [
    packages.length === 0 ? '' : ` --apt ${packages.join(',')}`,
    agents.length === 0 ? '' : ` --harness ${agents.map(harnessName).join(',')}`,
  ].join('')
  if (imageName(sandbox) === recorded.imageName)
    return readableNode
      ? `rebuild it by creating another sandbox:  craik sandbox create --backend docker --runtime runsc${apt}`
      : `rebuild it:  craik image build${apt}`
  return noted === undefined
    ? 'rebuild it with the packages that it had:  craik image build --apt PACKAGES'
    : `another build of craik created it; ${BRING}`
}

/** Records the inputs of an image. Its name does not contain them, and later the image itself can be missing. */
async function noteParts(
  craikHome: string,
  name: string,
  labels: Readonly<Record<string, string>> | null | undefined,
): Promise<void> {
  const path = join(await folderOf(craikHome), noteName(name))
  const parts = [labels?.[IMAGE_LABELS.packages] ?? '', ...imageHarnesses(labels)].join('\n')
  await writeFile(path, parts, { flag: 'wx', mode: 0o600 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
}

interface NotedParts {
  readonly packages: readonly string[]
  readonly harnesses: readonly string[]
}

async function readNotedParts(craikHome: string, name: string): Promise<NotedParts | undefined> {
  try {
    const path = join(await folderOf(craikHome), noteName(name))
    const text = readPrivateFile(path, MAX_NOTE_BYTES).toString()
    const [packages = '', ...harnesses] = text.split('\n')
    return {
      packages: packages === '' ? [] : parsePackages(packages),
      harnesses: harnesses.filter(isHarnessId),
    }
  } catch {
    return undefined
  }
}

function noteName(name: string): string {
  return `packages-${name.split(':')[1]!.slice(0, 12)}`
}

async function folderOf(craikHome: string): Promise<string> {
  const folder = join(craikHome, 'cache/images')
  await mkdir(folder, { recursive: true, mode: 0o700 })
  return folder
}
