/** Tests the generated reference pages: they cover every command and variable, and their example files are valid. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import { ACCOUNTS_FILE, parseOverrides } from '../../src/accounts/overrides.ts'
import { readLimits } from '../../src/cli/limits-file.ts'
import { NOUNS } from '../../src/cli/nouns.ts'
import { checkPolicyText } from '../../src/policy/cedar.ts'
import { readConfigFile } from '../../src/providers/config-file.ts'
import { loadFailoverPolicy } from '../../src/providers/failover/failover-policy.ts'
import { loadProviders } from '../../src/providers/load-providers.ts'
import { homeAt } from '../../src/store/home.ts'
import { tempFolder } from '../../test/temp-folder.ts'
import { commandsPage } from './commands-page.ts'
import { configurationGaps, configurationPage } from './configuration-page.ts'
import { anchorOf, escapeText, table, wrap } from './markdown.ts'
import { variablesIn } from './variables.ts'

it('describes every noun, with an anchor for each link of the contents', async () => {
  const page = await commandsPage()
  const anchors = new Set([...page.matchAll(/^#+ (.+)$/gm)].map(([, heading]) => anchorOf(heading!)))
  const links = [...page.matchAll(/\]\(#([^)]+)\)/g)].map(([, link]) => link!)
  expect(NOUNS.map(({ name }) => `craik-${name}`).filter((anchor) => !anchors.has(anchor))).toEqual([])
  expect(links.filter((link) => !anchors.has(link))).toEqual([])
  expect(anchors).toContain('craik-sandbox-create')
  expect(page).toContain('| `--memory <size>` | memory limit (default: 2g) |')
})

it('writes the same pages in any environment', async () => {
  const before = [await commandsPage(), configurationPage()]
  const { HOME, COLUMNS } = process.env
  Object.assign(process.env, { HOME: '/nowhere', COLUMNS: '40' })
  try {
    expect([await commandsPage(), configurationPage()]).toEqual(before)
  } finally {
    Object.assign(process.env, { HOME, COLUMNS: COLUMNS ?? '' })
  }
})

it('contains example files that Craik accepts', async () => {
  const home = homeAt(tempFolder('craik-configuration-'))
  const page = configurationPage()
  write(home.config, 'limits.yaml', example(page, 'limits.yaml', 'yaml'))
  write(home.config, ACCOUNTS_FILE, example(page, 'accounts.yaml', 'yaml'))
  write(home.config, 'failover.json', example(page, 'failover.json', 'json'))
  write(home.config, 'providers/team.yaml', example(page, 'providers/', 'yaml'))
  expect(await readLimits(home)).toMatchObject({ warmPlaces: 2, admission: { total: 40, running: 10 } })
  expect(parseOverrides(await readConfigFile(home.config, ACCOUNTS_FILE))).toHaveProperty('claude-code')
  const ids = (await loadProviders(home)).map(({ id }) => id)
  expect(ids).toContain('provider_team_gateway')
  expect(await loadFailoverPolicy(home, ids)).toMatchObject({ cooldown_ms: 60_000 })
  expect(await checkPolicyText(example(page, 'policies/custom.cedar', 'cedar'))).toEqual([])
})

it('lists every field of limits.yaml', async () => {
  const home = homeAt(tempFolder('craik-configuration-'))
  write(home.config, 'limits.yaml', 'unknown: 1\n')
  const error = await readLimits(home).catch((thrown: Error) => thrown.message)
  const fields = /valid settings: (.+)$/.exec(String(error))![1]!.split(', ')
  expect(fields.filter((field) => !configurationPage().includes(`| \`${field}\` |`))).toEqual([])
})

it('finds variables and files that the page does not list', () => {
  const gaps = (source: string) =>
    configurationGaps(configurationPage(), source).filter((gap) => gap.startsWith('the code'))
  expect(gaps("const home = process.env.CRAIK_HOME || '~/.craik'")).toEqual([])
  expect(gaps('environment.CRAIK_NOVELTY')).toEqual([expect.stringContaining('CRAIK_NOVELTY')])
  expect(gaps("const SOME_FILE = 'novelty.yaml'")).toEqual([expect.stringContaining('config/novelty.yaml')])
  expect(gaps('see `config/novelty.json`')).toEqual([expect.stringContaining('config/novelty.json')])
  expect(gaps('~/.config/novelty.json')).toEqual([])
  expect(configurationGaps(configurationPage(), '')).toContainEqual(expect.stringContaining('CRAIK_DEBUG'))
})

it('finds variables only where the code reads them', () => {
  const source =
    "process.env.TERM; environment.GH_CONFIG_DIR; value('SANDBOX_APT'); const SANDBOX_STATES = []; process.env[name]"
  expect([...variablesIn(source)].sort()).toEqual(['GH_CONFIG_DIR', 'SANDBOX_APT', 'TERM'])
})

it('writes Markdown that shows a text unchanged', () => {
  expect(escapeText('*.HOST in <run>, not `*<x>`')).toBe('\\*.HOST in \\<run>, not `*<x>`')
  expect(table(['a', 'b'], [['x|y', 'z']])).toBe('| a | b |\n|---|---|\n| x\\|y | z |')
  expect(
    wrap(Array(30).fill('abcdefg').join(' '))
      .split('\n')
      .every(({ length }) => length <= 116),
  ).toBe(true)
  expect(anchorOf('craik sandbox create')).toBe('craik-sandbox-create')
})

/** Returns the first code block of a language below the heading of a file. */
function example(page: string, file: string, language: string): string {
  const section = page.slice(page.indexOf(`### \`config/${file}\``))
  return new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 's').exec(section)![1]!
}

function write(config: string, name: string, text: string): void {
  const path = join(config, name)
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text, { mode: 0o600 })
}
