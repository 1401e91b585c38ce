/**
 * Times the start of a container up to its first command, against the docker command: new, from the warm pool, and
 * after a stop.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { CONTAINER, fasterRow, openContainer, type PlainContainers, slowerRow, TRUE } from './docker-scene.ts'
import { type Row, timeInTurns } from './measure.ts'
import type { Supervised } from './sandboxes-scene.ts'

const ROUNDS = { warm: 2, counted: 25 }
const POLL_MS = 50

/** `cold` keeps no containers in its warm pool, `warm` keeps one. */
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
  // The warm pool starts a container only after a first sandbox was created.
  await start(warm)
  const times = await timeInTurns(ROUNDS, {
    // Not part of a row: removes everything that the round created, and waits until the next container is ready and
    // idle.
    ready: async () => {
      for (const { of, id } of made.splice(0)) await of.client.sandboxes.delete(id)
      await plain.clean()
      while ((await warm.client.supervisor.status()).warm === 0) await sleep(POLL_MS)
    },
    warm: () => start(warm),
    // A warm start makes the pool start a replacement container. This waits until it is ready, so that it does not
    // disturb the next work.
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
    fasterRow(`${what} that waits (warm pool), through the API`, times.warm, against, times.docker, {
      atLeast: 20,
    }),
    slowerRow(`${what} made anew (cold), through the API`, times.cold, against, times.docker, {
      atMost: 1.3,
    }),
    await stopRow(plain, cold),
  ]
}

async function stopRow(plain: PlainContainers, cold: Supervised): Promise<Row> {
  const { sandboxes } = cold.client
  const sandbox = await openContainer(cold)
  const container = await plain.idle()
  try {
    const times = await timeInTurns(ROUNDS, {
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
    return slowerRow(what, times.ours, '`docker stop` and `docker start` of an idle container', times.theirs)
  } finally {
    await sandboxes.delete(sandbox)
    await plain.remove(container)
  }
}
