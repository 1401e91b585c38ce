/**
 * Model calls from containers, with placeholder credentials and with real logins. The engine's state contains no real
 * credential.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openEngine } from '../../src/sandboxes/backends/docker/engine/engine.ts'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import { FILES, LoginScene } from '../gateway/login-scene.ts'
import { checkModelCalls } from '../gateway/model-calls.ts'
import { canBe } from '../sandbox-home.ts'

const identity = canBe('root') ? 'root' : 'user'

describe.skipIf(ENGINE_IS_NEEDED !== undefined)(ENGINE_IS_NEEDED ?? 'in a container', () => {
  let scene: LoginScene
  beforeEach(async () => {
    scene = await LoginScene.open({ identity, backend: 'docker' })
  })
  afterEach(() => scene[Symbol.asyncDispose]())

  it('each dialect works with a placeholder credential, and the engine has no trace of the real login or key', async () => {
    await checkModelCalls(scene)
    const { texts, folders } = await readEngineState(scene.home.containers)
    expect(await scene.hunt(texts, [], folders)).toEqual([])
  })

  it('a forwarded login is in its file, and nowhere that an inspection shows', async () => {
    scene.logIn('claude')
    scene.logIn('codex')
    const box = await scene.create(['--credentials', 'forward'])
    const places = (['claude', 'codex'] as const).map((program) => {
      const path = `/workspace/home/${FILES[program]}`
      return { path, content: readFileSync(scene.fileOf(program), 'utf8') }
    })
    for (const { path, content } of places) {
      const ran = await box.exec(['sh', '-c', `cat ${path} && stat -c %a ${path} >&2`])
      expect(ran).toMatchObject({ stdout: content, stderr: '400\n' })
    }
    expect((await box.exec(['ls', '-A', '/run/secrets'])).stdout).toBe('')
    const { texts, folders } = await readEngineState(scene.home.containers)
    const paths = places.map(({ path }) => path)
    const disk = scene.home.path('home/sandboxes', box.id, 'data/home')
    expect((await scene.hunt(texts, paths, folders)).sort()).toEqual(
      paths.map((path) => `file: ${join(disk, path.slice('/workspace/home'.length))}`),
    )
  })
})

/** Returns everything that an inspection shows, and the folders of the containers' own layers and volumes. */
async function readEngineState(containers: readonly string[]) {
  const { docker } = await openEngine(process.env)
  const texts: Record<string, string> = {}
  const folders: string[] = []
  for (const id of containers) {
    const shown = await docker.getContainer(id).inspect()
    const image = docker.getImage(shown.Image)
    texts[`container ${id}`] = JSON.stringify(shown)
    texts[`image of ${id}`] = JSON.stringify([await image.inspect(), await image.history()])
    const layer = (shown.GraphDriver.Data as Record<string, string> | null)?.UpperDir
    if (layer !== undefined) folders.push(layer)
    for (const { Source } of shown.Mounts) if (Source?.includes('/volumes/')) folders.push(Source)
  }
  expect(folders.length).toBeGreaterThanOrEqual(containers.length)
  return { texts, folders }
}
