/** Counts the open connections through the boundary, in both directions, and limits them. */
import { SidecarError } from '../router.ts'

const MAX_CONNECTIONS = 1024

export class PortConnections {
  #open = 0

  get open(): number {
    return this.#open
  }

  /** Returns a function that the caller must call when the connection is closed. */
  enter(): () => void {
    if (this.#open >= MAX_CONNECTIONS)
      throw new SidecarError('busy', `${MAX_CONNECTIONS} connections are already open`)
    this.#open++
    let left = false
    return () => {
      if (left) return
      left = true
      this.#open--
    }
  }
}
