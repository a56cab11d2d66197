/** For `node --import`: shortens the bridge's pauses, so that tests need not wait for them. */
import { timing } from '../../src/timing.mjs';

/** As the bridge is shipped. */
export const shipped = { ...timing };

Object.assign(timing, {
  reconnectFirstSeconds: 0.05,
  reconnectLongestSeconds: 0.5,
  backendFirstSeconds: 0.02,
  backendLongestSeconds: 0.2,
  backendLaterSeconds: 0.05,
  downloadPauseSeconds: [0.02, 0.04, 0.08],
  downloadIdleSeconds: 2,
  downloadOnlineSeconds: 20,
  brokenDiskSeconds: 0.05,
});
