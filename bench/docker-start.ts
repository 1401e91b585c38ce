/** From nothing, from a container that waits, and from one that was stopped, to a first command: against the docker command. */
import { setTimeout as sleep } from 'node:timers/promises'
import { CONTAINER, faster, openContainer, type PlainContainers, slower, TRUE } from './docker-scene.ts'
import { alternately, type Row } from './measure.ts'
import type { Supervised } from './sandboxes-scene.ts'

const ROUNDS = { warm: 2, counted: 25 }
const POLL_MS = 50

/** `cold` keeps no containers waiting, `warm` one. */
export async function dockerStartRows(
  plain: PlainContainers,
  cold: Supervised,
  warm: Supervised,
): Promise<Row[]> {
  const made: { readonly of: Supervised; readonly id: string }[] = []
  const start = async (of: Supervised) => {
    const { id } = await of.client.sandboxes.create(CONTAINER)
    made.push({ of, id })
    await of.client.sandboxes.exec(id, { argv: TRUE })
  }
  // A container waits for a sandbox when one was made before.
  await start(warm)
  const times = await alternately(ROUNDS, {
    // Not part of any: what was made goes again, and the next container waits and is still.
    ready: async () => {
      for (const { of, id } of made.splice(0)) await of.client.sandboxes.delete(id)
      await plain.clean()
      while ((await warm.client.supervisor.status()).warm === 0) await sleep(POLL_MS)
    },
    warm: () => start(warm),
    // The place that is started after it is on its way for about as long as this waits.
    settle: async () => {
      while ((await warm.client.supervisor.status()).warm === 0) await sleep(POLL_MS)
    },
    cold: () => start(cold),
    docker: () => plain.run(...TRUE),
  })
  for (const { of, id } of made.splice(0)) await of.client.sandboxes.delete(id)
  await plain.clean()
  const against = `\`docker run\` of the same image, engine ${plain.engine.version}`
  const what = 'create to first command, a container'
  return [
    faster(`${what} that waits (warm pool), through the API`, times.warm, against, times.docker, {
      atLeast: 20,
    }),
    slower(`${what} made anew (cold), through the API`, times.cold, against, times.docker, { atMost: 1.3 }),
    await stopRow(plain, cold),
  ]
}

async function stopRow(plain: PlainContainers, cold: Supervised): Promise<Row> {
  const { sandboxes } = cold.client
  const sandbox = await openContainer(cold)
  const container = await plain.idle()
  try {
    const times = await alternately(ROUNDS, {
      ours: async () => {
        await sandboxes.stop(sandbox)
        await sandboxes.resume(sandbox)
      },
      theirs: async () => {
        await plain.engine.docker('stop', container)
        await plain.engine.docker('start', container)
      },
    })
    const what = 'stop and resume of an idle sandbox, until it takes commands'
    return slower(what, times.ours, '`docker stop` and `docker start` of an idle container', times.theirs)
  } finally {
    await sandboxes.delete(sandbox)
    await plain.remove(container)
  }
}
