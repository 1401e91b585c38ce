/**
 * The real agents' command-line programs, from npm, in containers: in one image, in shared layers, without a network.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { PACKAGED_HARNESS_NAMES } from '../../src/harnesses/packages/harness-catalogue.ts'
import { type Engine, openEngine } from '../../src/sandboxes/backends/docker/engine/engine.ts'
import type { ReadyImage } from '../../src/sandboxes/backends/docker/image/ensure-image.ts'
import { TestHome } from '../craik.ts'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import { HARNESSES_MS, readyHarnessImage, shareHarnesses } from '../harness-image.ts'
import { expectAllVersions, VERSIONS } from '../harness-versions.ts'

interface Made {
  readonly container: { readonly image: string; readonly image_name: string }
  readonly harnesses: readonly { readonly name: string }[]
}

describe.skipIf(ENGINE_IS_NEEDED)(`agents’ programs in containers ${ENGINE_IS_NEEDED ?? ''}`, () => {
  let engine: Engine
  let test: TestHome
  let image: ReadyImage
  const env = () => ({ CRAIK_ENGINE: engine.address })
  const craik = <T>(...args: string[]) => test.json<T>(args, { env: env() })
  const exec = (sandbox: string, ...argv: string[]) =>
    test.run(['sandbox', 'exec', sandbox, '--', ...argv], { env: env() })

  beforeAll(async () => {
    engine = await openEngine(process.env)
    test = new TestHome()
    image = await readyHarnessImage()
    await shareHarnesses(test.home)
  }, HARNESSES_MS)
  afterAll(async () => {
    await test?.run(['sandbox', 'delete', '--all', '--yes'], { env: env() })
    await test?.run(['supervisor', 'stop'])
    test?.[Symbol.dispose]()
  })

  it('are all in the image that is named after them, and run in a container without a network', async () => {
    const made = await craik<Made>(
      'sandbox',
      'create',
      '--backend',
      'docker',
      '--name',
      'all',
      '--harness',
      'all',
    )
    expect(made.container).toMatchObject({ image: image.id, image_name: image.name })
    expect(made.harnesses.map(({ name }) => name)).toEqual(PACKAGED_HARNESS_NAMES)
    await expectAllVersions((...argv) => exec('all', ...argv))
  })

  it('include no MCP server and no MCP settings', async () => {
    const script = [
      'find / -xdev -iname "*mcp*.json" -not -name package.json 2>/dev/null',
      'find /opt -ipath "*example*" -ipath "*mcp*" -type f',
      'find / -xdev -ipath "*@modelcontextprotocol/server*" 2>/dev/null; true',
    ]
    expect((await exec('all', 'sh', '-c', script.join('; '))).stdout).toBe('')
  })

  it('one alone has another image, with one layer more than the plain image, built without an npm request', async () => {
    const alone = await craik<{ id: string; name: string }>('image', 'build', '--harness', 'kimi')
    expect(alone.id).not.toBe(image.id)
    expect(await craik('image', 'build', '--harness', 'kimi')).toMatchObject({ ...alone, made: false })
    const layersOf = async (name: string) => (await engine.docker.getImage(name).inspect()).RootFS.Layers!
    const plain = await craik<{ name: string }>('image', 'build')
    const [own, without] = [await layersOf(alone.name), await layersOf(plain.name)]
    expect(own.length).toBe(without.length + 1)
    // The layers of the root file system and of npm are shared.
    expect(own.slice(0, 2)).toEqual(without.slice(0, 2))
    await craik('sandbox', 'create', '--backend', 'docker', '--name', 'one', '--image', alone.name)
    expect((await exec('one', 'kimi', '--version')).stdout.trim()).toBe(VERSIONS.kimi)
    expect((await exec('one', 'claude', '--version')).code).toBe(127)
  })

  it('are listed with the images that contain them', async () => {
    interface Listed {
      readonly name: string
      readonly kind: string
      readonly current: boolean
      readonly harnesses: readonly string[]
    }
    const found = (await craik<Listed[]>('image', 'list')).find(({ name }) => name === image.name)!
    expect(found).toMatchObject({ kind: 'sandbox', current: true })
    expect(found.harnesses.map((id) => id.replace(/-[0-9].*/, ''))).toEqual(PACKAGED_HARNESS_NAMES)
    const { images } = await craik<{ images: string[] }>('harness', 'info', 'codex')
    expect(images).toContain(image.name)
  })

  it('that are not in an image are refused for that image', async () => {
    const { name } = await craik<{ name: string }>('image', 'build')
    const refused = await test.run(
      ['sandbox', 'create', '--backend', 'docker', '--image', name, '--harness', 'codex'],
      { env: env() },
    )
    expect(refused.code).toBe(3)
    expect(refused.stderr).toMatch(/does not contain codex-/)
  })
})
