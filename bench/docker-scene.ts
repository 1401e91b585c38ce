/** The setting of the measurements with containers: one engine, one image, and the containers of both sides. */

import { harnessStore } from '../src/harnesses/packages/harness-store.ts'
import type { CreateBody } from '../src/operator/api/requests.ts'
import { openEngine } from '../src/sandboxes/backends/docker/engine/engine.ts'
import { findBuiltImage } from '../src/sandboxes/backends/docker/image/ensure-image.ts'
import { prepareImage } from '../test/engine-image.ts'
import type { DockerEngine } from './docker-engine.ts'
import type { Row, Spread } from './measure.ts'
import { compareTimes } from './sandboxes-exec.ts'
import type { Supervised } from './sandboxes-scene.ts'

/** The command that measures each row again. */
export const DOCKER_COMMAND = 'npm run bench -- docker'

/** The request that the command line sends when the user types only `--backend docker`. */
export const CONTAINER: CreateBody = {
  backend: 'docker',
  workspace: { mode: 'copy' },
  environment: {},
  network: 'none',
  mounts: [],
  container: { image: 'craik' },
}
export const TRUE = ['/bin/true']

/** Plain containers of the same image and with the same init as Craik's sandboxes, without any other option. */
export class PlainContainers {
  readonly engine: DockerEngine
  readonly image: string
  readonly #made: string[] = []

  constructor(engine: DockerEngine, image: string) {
    this.engine = engine
    this.image = image
  }

  /** Runs a program with `docker run` and waits until it exits. The container stays until `clean`. */
  async run(...argv: readonly string[]): Promise<void> {
    const name = `plain-${process.hrtime.bigint()}`
    this.#made.push(name)
    await this.engine.docker('run', '--name', name, ...this.#arguments(this.image, argv))
  }

  /** Starts a container in which nothing happens, until it is removed. */
  async idle(image = this.image): Promise<string> {
    const argv = ['/bin/sleep', '100000']
    return (await this.engine.docker('run', '-d', ...this.#arguments(image, argv))).trim()
  }

  async clean(): Promise<void> {
    const made = this.#made.splice(0)
    if (made.length > 0) await this.engine.docker('rm', '-f', ...made)
  }

  remove(container: string): Promise<string> {
    return this.engine.docker('rm', '-f', container)
  }

  #arguments(image: string, argv: readonly string[]): readonly string[] {
    return ['--network', 'none', '--entrypoint', '/usr/bin/tini', image, '--', ...argv]
  }
}

/** Takes the image from the archive that the tests also cache. Builds and caches it when the archive is missing. */
export async function plainContainers(docker: DockerEngine, craikHome: string): Promise<PlainContainers> {
  const engine = await openEngine({ CRAIK_ENGINE: docker.address })
  await prepareImage(engine)
  return new PlainContainers(
    docker,
    (await findBuiltImage(engine, { harnesses: harnessStore.ids([]) }, { craikHome })).id,
  )
}

/** Creates a sandbox of Craik in a container and runs its first command. */
export async function openContainer({ client }: Supervised): Promise<string> {
  const { id } = await client.sandboxes.create(CONTAINER)
  await client.sandboxes.exec(id, { argv: TRUE })
  return id
}

/** Returns a row whose ratio is Craik's time divided by the time of the docker command. */
export function slowerRow(
  what: string,
  ours: Spread,
  against: string,
  theirs: Spread,
  bar?: Row['bar'],
): Row {
  return { ...compareTimes(what, ours, { against, theirs }, bar), command: DOCKER_COMMAND }
}

/** Returns a row whose ratio is the time of the docker command divided by Craik's time. */
export function fasterRow(
  what: string,
  ours: Spread,
  against: string,
  theirs: Spread,
  bar?: Row['bar'],
): Row {
  const row = slowerRow(`${what}: how much faster`, ours, against, theirs, bar)
  return { ...row, ratio: theirs.p50 / ours.p50 }
}
