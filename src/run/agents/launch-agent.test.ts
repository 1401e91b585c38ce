import { describe, expect, it } from 'vitest'
import { processCommands } from '../../sandboxes/backends/process/command-backend.ts'
import { ADA_OPERATOR, agentScene } from './agents.fixture.ts'
import { launchAgent, prepareRun } from './launch-agent.ts'

describe('a library caller on a machine without bubblewrap', () => {
  it('is refused unless it names the weaker isolation, as on the command line', async () => {
    using scene = await agentScene()
    const backend = processCommands({ craikHome: scene.store.home.root, environment: { PATH: '/nowhere' } })
    const place = { ...scene.deps, backend }
    const wanted = { operator: ADA_OPERATOR, workspace: scene.workspace }
    const refusal = { code: 'unavailable', hint: expect.stringContaining('--isolation none') }
    await expect(prepareRun(place, wanted)).rejects.toMatchObject(refusal)
    await expect(launchAgent(place, { ...wanted, issuer: 'local' })).rejects.toMatchObject(refusal)
    expect(await scene.store.tables.sessions.list({}, 10)).toEqual([])
    const named = { ...wanted, issuer: 'local', isolation: 'none' as const }
    expect((await launchAgent(place, named)).session.isolation).toBe('none')
  })
})
