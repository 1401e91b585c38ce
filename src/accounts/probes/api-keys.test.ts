import { describe, expect, it } from 'vitest'
import { NEVER_ABORTED } from '../../lib/never-aborted.fixture.ts'
import { CATALOGUE } from '../../providers/provider-catalogue.ts'
import { secretsFixture } from '../../secrets/secrets.fixture.ts'
import { bindSecret, storeSecret } from '../../secrets/secrets.ts'
import { findWithProbe, machine, problemsOf } from '../accounts.fixture.ts'
import { API_KEYS } from '../api-keys.ts'
import { environmentProbe } from './environment.ts'
import { secretStoreProbe } from './secret-store.ts'

describe('API keys', () => {
  it('of the catalogue are all known', () => {
    const names = new Set(CATALOGUE.flatMap(({ secret_ref_names }) => secret_ref_names))
    expect([...names].filter((name) => !API_KEYS.some((key) => key.name === name))).toEqual([])
  })

  it('in the environment are found, except empty ones and those of GitHub', async () => {
    using here = machine({
      OPENAI_API_KEY: 'made-up-key',
      GEMINI_API_KEY: '',
      ANTHROPIC_API_KEY: ' ',
      GITHUB_TOKEN: 'never',
      GH_TOKEN: 'never',
      GH_ENTERPRISE_TOKEN: 'never',
    })
    const found = await findWithProbe(environmentProbe, here.hostEnvironment)
    expect(found.map(({ account }) => account.id)).toEqual(['env/OPENAI_API_KEY'])
    expect(found[0]?.account.billing).toBe('metered')
  })

  it('in the secret store are found; an unreadable one is reported', async () => {
    await using secrets = await secretsFixture()
    using here = machine()
    await storeSecret(
      secrets.store,
      secrets.home,
      'local-user:tester',
      'GEMINI_API_KEY',
      Buffer.from('made-up-key\n'),
    )
    await bindSecret(secrets.store, 'local-user:tester', 'OPENAI_API_KEY', {
      source: 'env',
      reference: 'MISSING',
    })
    const probe = secretStoreProbe(secrets.home, async () => secrets.store)
    const [found] = await findWithProbe(probe, here.hostEnvironment)
    expect(found?.account).toMatchObject({ id: 'secret/GEMINI_API_KEY', family: 'gemini' })
    if (found?.login.kind !== 'key') throw new Error('expected a key')
    expect(found.login.headers(await found.login.read(NEVER_ABORTED))).toEqual({
      'x-goog-api-key': 'made-up-key',
    })
    expect((await problemsOf(probe, here.hostEnvironment)).map(({ id }) => id)).toEqual([
      'secret/OPENAI_API_KEY',
    ])
  })

  it('are not looked up in a store that does not exist', async () => {
    using here = machine()
    const probe = secretStoreProbe(here.home, async () => undefined)
    expect(await probe.probe(here.hostEnvironment, NEVER_ABORTED)).toEqual([])
  })
})
