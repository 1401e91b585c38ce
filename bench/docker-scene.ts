/** What the measurements with containers are taken on: one engine, one image, and both sides’ containers of it. */

import { harnessStore } from '../src/harnesses/packages/harness-store.ts'
import type { CreateBody } from '../src/operator/api/requests.ts'
import { openEngine } from '../src/sandboxes/backends/docker/engine/engine.ts'
import { findBuiltImage } from '../src/sandboxes/backends/docker/image/ensure-image.ts'
import { prepareImage } from '../test/engine-image.ts'
import type { DockerEngine } from './docker-engine.ts'
import type { Row, Spread } from './measure.ts'
import { compareTimes } from './sandboxes-exec.ts'
import type { Supervised } from './sandboxes-scene.ts'

/** How each row is measured again. */
export const DOCKER_COMMAND = 'npm run bench -- docker'

/** What the command line says when nothing but `--backend docker` is typed. */
export const CONTAINER: CreateBody = {
  backend: 'docker',
  workspace: { mode: 'copy' },
  environment: {},
  network: 'none',
  mounts: [],
  container: { image: 'craik' },
}
export const TRUE = ['/bin/true']

/** Of the very image that Craik’s sandboxes are, with the same init; nothing else is asked of it. */
export class PlainContainers {
  readonly engine: DockerEngine
  readonly image: string
  readonly #made: string[] = []

  constructor(engine: DockerEngine, image: string) {
    this.engine = engine
    this.image = image
  }

  /** `docker run` of a program to its end; the container stays until `clean`. */
  async run(...argv: readonly string[]): Promise<void> {
    const name = `plain-${process.hrtime.bigint()}`
    this.#made.push(name)
    await this.engine.docker('run', '--name', name, ...this.#arguments(this.image, argv))
  }

  /** One in which nothing happens, until it is removed. */
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

/** From the archive that the tests keep too, or built and kept. */
export async function plainContainers(docker: DockerEngine, craikHome: string): Promise<PlainContainers> {
  const engine = await openEngine({ CRAIK_ENGINE: docker.address })
  await prepareImage(engine)
  return new PlainContainers(
    docker,
    (await findBuiltImage(engine, { harnesses: harnessStore.ids([]) }, { craikHome })).id,
  )
}

/** A sandbox of Craik’s that is a container, with its first command behind it. */
export async function openContainer({ client }: Supervised): Promise<string> {
  const { id } = await client.sandboxes.create(CONTAINER)
  await client.sandboxes.exec(id, { argv: TRUE })
  return id
}

/** Ours over theirs, in time. */
export function slower(what: string, ours: Spread, against: string, theirs: Spread, bar?: Row['bar']): Row {
  return { ...compareTimes(what, ours, { against, theirs }, bar), command: DOCKER_COMMAND }
}

/** Theirs over ours. */
export function faster(what: string, ours: Spread, against: string, theirs: Spread, bar?: Row['bar']): Row {
  const row = slower(`${what}: how much faster`, ours, against, theirs, bar)
  return { ...row, ratio: theirs.p50 / ours.p50 }
}
