import { existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, expect, it } from 'vitest'
import { tempFolder } from '../../test/temp-folder.ts'
import { homeAt } from '../store/home.ts'
import { ensureRunFolder } from './run-folder.ts'
import { startSupervisor } from './start.ts'

let folder: string
beforeEach(() => {
  folder = realpathSync(tempFolder('craik-start-'))
})

function create(name: string): string {
  writeFileSync(join(folder, name), '')
  return join(folder, name)
}

/** Starts a program in place of the supervisor. Returns its environment. */
async function environmentOfSupervisor(environment: NodeJS.ProcessEnv): Promise<NodeJS.ProcessEnv> {
  const output = join(folder, 'environment.json')
  const mainFile = join(folder, 'main.mjs')
  writeFileSync(
    mainFile,
    `import { renameSync, writeFileSync } from 'node:fs'
writeFileSync('${output}.new', JSON.stringify(process.env))
renameSync('${output}.new', '${output}')`,
  )
  const home = homeAt(join(folder, 'home'))
  await startSupervisor({ home, mainFile, environment }, ensureRunFolder(home))
  await expect.poll(() => existsSync(output), { timeout: 30_000 }).toBe(true)
  return JSON.parse(readFileSync(output, 'utf8')) as NodeJS.ProcessEnv
}

it('passes on the paths of trusted files, also paths that contain a colon', async () => {
  const NODE_EXTRA_CA_CERTS = create('authority:of:the:company.pem')
  const SSL_CERT_FILE = create('roots:2026.pem')
  expect(await environmentOfSupervisor({ NODE_EXTRA_CA_CERTS, SSL_CERT_FILE })).toMatchObject({
    NODE_EXTRA_CA_CERTS,
    SSL_CERT_FILE,
  })
})

it('passes on each folder of a list that exists', async () => {
  const [one, two] = [join(folder, 'one'), join(folder, 'two')]
  for (const path of [one, two]) mkdirSync(path)
  const SSL_CERT_DIR = [one, join(folder, 'none'), two].join(':')
  const found = await environmentOfSupervisor({ SSL_CERT_DIR, SSL_CERT_FILE: join(folder, 'none') })
  expect(found.SSL_CERT_DIR).toBe(`${one}:${two}`)
  expect(found).not.toHaveProperty('SSL_CERT_FILE')
})
